"""Time of a kernel from first principles, with constants measured per device and type."""
