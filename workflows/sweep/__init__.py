"""Many runs at once: the cells of a grid, estimated in parallel and kept, as one table."""
