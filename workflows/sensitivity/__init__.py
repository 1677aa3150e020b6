"""How much each rate of node and network matters to a step."""
