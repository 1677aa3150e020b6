"""How much memory a program needs on one device."""
