"""The command ``python -m hespas.estimator.iree_estimator``."""

from hespas.tools.published import estimator_command

if __name__ == "__main__":
    estimator_command.script("iree")
