"""The hespas dialect: attribute schema, accessors, verification, its xDSL and IRDL forms."""
