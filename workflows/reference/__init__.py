"""A whole program measured on one device, to compare the sum of its regions with."""
