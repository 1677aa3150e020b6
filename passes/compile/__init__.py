"""XLA in a process of its own: what ``prepare`` and ``xla-optimize`` share."""
