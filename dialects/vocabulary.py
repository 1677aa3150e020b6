"""The words that fields of ``hespas`` attributes may hold. Importing it imports no bindings."""

COST_NUMBERS = (  # that are at least 0
    "flops", "read_bytes", "write_bytes", "latency_ns", "energy_nj", "low_ns", "high_ns",
)  # fmt: skip
BOUNDS = ("compute", "memory", "launch", "latency", "measured", "none", "unknown")
COMM_KINDS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "permute",
)
KERNEL_KINDS = (
    "loop", "reduction", "transpose", "copy", "gemm", "conv", "attention", "sort", "gather",
    "scatter", "scan", "fft", "rng", "linalg", "custom", "control", "free",
)  # fmt: skip
SPLITS = ("linear", "individual")
