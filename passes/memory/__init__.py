"""Computing the memory that a program needs on one device."""
