"""Cost rules by family of ops; ``registry.rules()`` is the table, ``table`` its documentation."""
