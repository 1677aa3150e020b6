"""Cost rules by family of ops; ``hespas.estimators.work`` combines them."""
