"""The hespas dialect: attribute schema, typed accessors, verification, and its xDSL and IRDL forms."""
