"""The tables that hespas ships, computed from measurements of kernels and collectives."""
