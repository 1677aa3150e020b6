"""What varies in a cluster: devices, kernels and failures."""
