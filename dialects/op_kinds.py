"""The kinds of ops: the only lists of op names and custom-call targets by kind.

A set contains the forms of an op in every dialect, so that a program has the same cost in StableHLO
and in MHLO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import (
    collect_functions,
    find_ops,
    get_call_target,
    has_private_symbol,
    ir,
)
from hespas.support.errors import HespasError


def qualify_op_names(dialect: str, short_names: str) -> list[str]:
    """Prefix each word of ``short_names`` with the dialect; an empty dialect adds no prefix."""
    return [f"{dialect}.{name}" if dialect else name for name in short_names.split()]


def name_in_both(short_names: str) -> frozenset[str]:
    """Return the ops of these names in StableHLO and in MHLO."""
    return frozenset(
        qualify_op_names("stablehlo", short_names) + qualify_op_names("mhlo", short_names)
    )


# Structure.
FUSION = "mhlo.fusion"
MANUAL_COMPUTATION = "sdy.manual_computation"
RECOMPUTATION_SCOPE = "rematted_computation"  # of names: jax.checkpoint runs these ops again
TERMINATORS = name_in_both("return") | {"chlo.return", "func.return", "sdy.return"}
LOOPS = name_in_both("while")
BRANCHES = name_in_both("if case")
CONTROL = LOOPS | BRANCHES
SIZE_SETTERS = name_in_both("set_dimension_size")
COMPOSITES = name_in_both("composite")
SCANS = frozenset(("chlo.scan", "mhlo.scan"))
CUSTOM_CALLS = name_in_both("custom_call")
ASYNC_STARTS = name_in_both("async_start")
ASYNC_UPDATES = frozenset(("mhlo.async_update",))
ASYNC_DONES = name_in_both("async_done")
ASYNC = ASYNC_STARTS | ASYNC_UPDATES | ASYNC_DONES
CALLEE = {  # op to the attribute that names the function it runs
    "func.call": "callee",
    **dict.fromkeys(sorted(COMPOSITES), "decomposition"),
    "mhlo.async_start": "called_computation",
}

# Data that is not computed.
CONSTANTS = name_in_both("constant")
TUPLES = name_in_both("tuple")
TUPLE_ELEMENTS = name_in_both("get_tuple_element")
BARRIERS = name_in_both("optimization_barrier")
DEVICE_IDS = name_in_both("partition_id replica_id")
# The result is the first operand, with the same type.
FORWARDING_OPS = frozenset(
    (
        "mhlo.add_dependency", "mhlo.copy", "mhlo.domain", "sdy.propagation_barrier", "sdy.reshard",
        "sdy.sharding_constraint",
    )
)  # fmt: skip
# The result is the first operand, with this or another type, in the same memory.
VIEWS = (
    name_in_both("reshape dynamic_reshape bitcast_convert set_dimension_size")
    | {"mhlo.bitcast"}
    | (FORWARDING_OPS - {"mhlo.copy", "sdy.reshard"})
)
# Ops of Shardy that compute nothing of their own and move nothing.
SHARDY_MARKERS = (
    "sdy.constant",
    "sdy.data_flow_edge",
    "sdy.func_data_flow_edge",
    "sdy.named_computation",
    "sdy.propagation_barrier",
    "sdy.sharding_constraint",
    "sdy.sharding_group",
)
# Results are tokens or scalars in registers.
NO_MEMORY_OPS = (
    DEVICE_IDS | name_in_both("after_all create_token get_dimension_size") | {"mhlo.trace"}
)
# Ops that a compiler resolves to an address, a constant in the code, or nothing.
FREE_OPS = (
    CONSTANTS
    | TUPLES
    | TUPLE_ELEMENTS
    | BARRIERS
    | VIEWS
    | NO_MEMORY_OPS
    | {"mhlo.minimum_broadcast_shapes", "chlo.constant"}
    | {"sdy.sharding_group", "sdy.constant", "sdy.mesh"}
)

# Communication. A collective is an op, or a custom call with one of these targets.
_COMM_KIND_BY_OP = {  # short name to the ``kind`` of ``hespas.comm``
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "collective_broadcast": "broadcast",
    "collective_permute": "permute",
    "recv": "permute",
    "reduce_scatter": "reduce_scatter",
    "send": "permute",
}
TRANSFER_PAIRS = "_xla_send_recv_source_target_pairs"
"""The frontend attribute of a send or receive that XLA:GPU has made of a permute."""
_PAIR = re.compile(r"\{(\d+), *(\d+)\}")
RAGGED_CALL_TARGETS = frozenset(("ragged_all_to_all", "_xla_ragged_all_to_all"))
# Copies that a compiler has scheduled between the memory of a device and that of its host. What
# moves is the second operand of several, or else the only one; or the result.
OFFLOAD_CALL_TARGET, FETCH_CALL_TARGET = "hespas_offload", "hespas_fetch"
HOST_COPY_CALL_TARGETS = frozenset((OFFLOAD_CALL_TARGET, FETCH_CALL_TARGET))
# Collectives that XLA has combined, with one result for each operand; StableHLO's have one.
COMBINED_SCATTER_TARGET = "hespas_reduce_scatter"
COMBINED_PERMUTE_TARGET = "hespas_collective_permute"
_COMBINED_CALL_TARGETS = {
    COMBINED_SCATTER_TARGET: "reduce_scatter",
    COMBINED_PERMUTE_TARGET: "permute",
}
COLLECTIVE_CALL_TARGETS = (
    RAGGED_CALL_TARGETS | HOST_COPY_CALL_TARGETS | frozenset(_COMBINED_CALL_TARGETS)
)
COMM_KIND_BY_NAME = (
    _COMM_KIND_BY_OP
    | _COMBINED_CALL_TARGETS
    | dict.fromkeys(RAGGED_CALL_TARGETS, "all_to_all")
    | dict.fromkeys(HOST_COPY_CALL_TARGETS, "permute")
)
NETWORK_MARK = "hespas_network"  # frontend attribute that names what carries a collective
COLLECTIVES = name_in_both(" ".join(_COMM_KIND_BY_OP))
CROSS_REPLICA_SUMS = name_in_both("cross-replica-sum")  # deprecated form of an all_reduce
MAYBE_COLLECTIVE = COLLECTIVES | CUSTOM_CALLS
HOST_TRANSFERS = name_in_both("infeed outfeed")

# Custom calls that compute nothing, by target.
CUSTOM_PARTITIONING_CALL = "CustomSPMDPartitioning"  # its rule is a Python function of the exporter
# Between the shapes of the program and those of a device; GSPMD's form of a manual computation.
FULL_TO_SHARD, SHARD_TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"
MANUAL_CALL_TARGETS = frozenset((FULL_TO_SHARD, SHARD_TO_FULL))
GSPMD_CALL_TARGETS = {  # by the targets that stand for Shardy's manual computations in HLO
    "xla.sdy.GlobalToLocalShape": FULL_TO_SHARD,
    "xla.sdy.LocalToGlobalShape": SHARD_TO_FULL,
}
SHARDY_CALL_PREFIX = "xla.sdy."  # of the custom calls that stand for Shardy's ops in HLO
SHARDY_MESHES = "xla.sdy.meshes"  # the frontend attribute of a module in which HLO keeps all of it
RESULT_SHARDING_TARGET = "xla.sdy.FuncResultSharding"  # states that of a result
SHARDING_CALL_TARGET = "Sharding"  # GSPMD's constraint
PARTITIONER_CALL_TARGETS = MANUAL_CALL_TARGETS | {SHARDING_CALL_TARGET}
FORWARDING_CALL_TARGETS = frozenset(  # results are the operands
    (
        "LayoutConstraint", "PipelineMarker", RESULT_SHARDING_TARGET, *PARTITIONER_CALL_TARGETS,
        *GSPMD_CALL_TARGETS,
        "AwsNeuronTransferWithStaticRing",  # says how Neuron loads a parameter
    )
)  # fmt: skip
PLACEMENT_CALL_TARGETS = frozenset(("annotate_device_placement", "MoveToDevice", "MoveToHost"))
CHECK_CALL_TARGETS = frozenset(("shape_assertion",))  # without results
ALLOCATION_TARGET = "AllocateBuffer"  # memory without contents
ZERO_PADDING_TARGET = "ZeroCrop"  # clears the padding of a buffer of XLA:TPU in its place
IN_PLACE_TARGET = "hespas_in_place"  # a slice that the collective beside it reads or writes
FREE_CALL_TARGETS = (
    FORWARDING_CALL_TARGETS
    | {ALLOCATION_TARGET, ZERO_PADDING_TARGET, IN_PLACE_TARGET}
    | CHECK_CALL_TARGETS
    | frozenset(
        qualify_op_names(
            "",
            """
            PinToDevice PinToDeviceSram Unpin AssumeGatherIndicesInBound
            xla.sdy.PropagationBarrier xla.sdy.ShardingGroup X64Combine X64SplitHigh X64SplitLow
            GatherScatterIndicesBitpacked GetDimensionSize SetDimensionSize IntegerToSharding
            NopReturn PrepareAsyncCallStart PrepareAsyncCallDone SliceId
            __xla_internal_identity
            """,
        )
    )
)

# Custom calls of libraries, as regular expressions that match a whole target.
CUBLAS_GEMM_CALL = r"__cublas\$(gemm|lt\$matmul(\$f8)?)"
BLOCK_SCALED_CALL = r"__op\$block_scaled_dot|__cudnn\$blockScaledDot"  # jax.nn.scaled_matmul
# Kernels of TransformerEngine that convert to few bits, by the functions of its C interface
NARROWING_CALL = r"nvte_(compute_amax|quantize|hadamard_transform)\w*"
GEMM_CALL = rf"{CUBLAS_GEMM_CALL}|__(onednn|cublas)\$matmul.*|{BLOCK_SCALED_CALL}"
CONVOLUTION_CALL = r"__cudnn\$conv.*"
ATTENTION_CALL = r"__cudnn\$fmha.*"
NORM_CALL_TARGET = "__cudnn$norm"
NORM_CALL = r"__cudnn\$norm|AwsNeuronRmsNorm"
ACTIVATION_CALL = r"AwsNeuron(Gelu|GeluApprxTanh|Silu)(Backward)?"  # of PyTorch on Trainium
SOFTMAX_CALL = r"AwsNeuronSoftmax(Backward)?"
TOP_K_CALL = r"TopK|mhlo\.topk|chlo\.top_k|stablehlo\.topk|__gpu\$TopK|ApproxTopK|PartialReduce"
RADIX_SORT_CALL = r"__cub\$DeviceRadixSort.*|xla\.gpu\.ext\.cub_sort_.*"
THREEFRY_CALL = r"cu(da)?_threefry2x32(_ffi)?|hip_threefry2x32(_ffi)?"
HOST_CALL = (
    r"xla_(ffi_)?(partitioned_)?python_(cpu|gpu)_callback|xla_python_callback|xla_buffer_python_.*"
    r"|SendToHost|RecvFromHost|io_callback|CallPythonCallback|tf_host_callback"
)
RAGGED_ROWS = "hespas_rows"  # frontend attribute of a ragged_dot: the rows that its groups have
DECLARED_COST = "hespas_cost_estimate"  # frontend attribute, of Pallas kernels for GPUs
SPLASH_KERNEL = r"splash_m[hq]a_(fwd|dkv|dq)(_\w+)?"  # the name of the kernel of an opaque call
OPAQUE_KERNEL_CALL = r".*triton.*|tpu_custom_call|mosaic_gpu.*|AppleMLX.*"

# Attributes that frameworks write.
NUM_PARTITIONS, NUM_REPLICAS = "mhlo.num_partitions", "mhlo.num_replicas"
SHARDING_ATTRS = ("sdy.sharding", "mhlo.sharding")


def find_entry_function(
    module: ir.Module, functions: Mapping[str, ir.Operation] | None = None
) -> ir.Operation:
    """Return the entry function: the only public one, or the one named ``main``.

    Args:
        module: The module.
        functions: Its functions by name, if they are known.

    Raises:
        HespasError: The module has no such function, or the function has no body.
    """
    table = collect_functions(module) if functions is None else functions
    public = [function for function in table.values() if not has_private_symbol(function)]
    entry_function = public[0] if len(public) == 1 else table.get("main")
    if entry_function is None:
        nested = _list_nested_modules(module)
        if len(nested) == 1 and not public:
            raise HespasError(
                "the functions are in a module inside the module, where they are no program",
                op=nested[0],
                remedy="take them out of it",
            )
        problem = "several public functions and none is 'main'" if public else "no public function"
        raise HespasError(
            f"the module has {problem}", op=module.operation, remedy=_find_entry_remedy(module)
        )
    if not len(entry_function.regions[0].blocks):
        raise HespasError("the entry function has no body", op=entry_function)
    return entry_function


def _find_entry_remedy(module: ir.Module) -> str:
    """Return what to do about a module without an entry function."""
    if len(_list_nested_modules(module)) > 1:
        return "write each module to a file of its own"
    for view in module.body.operations:
        name = view.operation.name
        if name.startswith("vhlo."):
            return f"convert {name} with vhlo-legalize-to-stablehlo"
    return "name one 'main'"


def _list_nested_modules(module: ir.Module) -> list[ir.Operation]:
    """List the modules in a module that contain ops."""
    return [
        view.operation
        for view in module.body.operations
        if view.operation.name == "builtin.module"
        and len(view.operation.regions[0].blocks[0].operations)
    ]


def parse_transfer_pairs(text: str) -> list[tuple[int, int]]:
    """Return the sources and targets that ``TRANSFER_PAIRS`` holds as ``{{0,1},{1,0}}``."""
    return [(int(source), int(target)) for source, target in _PAIR.findall(text)]


def get_collective_name(op: ir.Operation) -> str:
    """Return the op's name without its dialect, or the target of a custom call."""
    return get_call_target(op) if op.name in CUSTOM_CALLS else op.name.partition(".")[2]


def is_collective(op: ir.Operation) -> bool:
    """Return whether the op moves data between devices, or between a device and its host."""
    name = op.name
    return name in COLLECTIVES or (
        name in CUSTOM_CALLS and get_call_target(op) in COLLECTIVE_CALL_TARGETS
    )


def is_marked_collective(op: ir.Operation) -> bool:
    """Return whether ``prepare`` has written ``hespas.comm`` on the op."""
    return op.name in MAYBE_COLLECTIVE and CommAttr.NAME in op.attributes


def is_async_collective(op: ir.Operation) -> bool:
    """Return whether ``hespas.comm`` says that a collective is asynchronous."""
    comm = CommAttr.read_from_op(op)
    return comm is not None and comm.is_async


def has_marked_collective(op: ir.Operation) -> bool:
    """Return whether the bodies of the op contain a collective with ``hespas.comm``."""
    return contains_op(op, is_marked_collective)


def contains_op(root: ir.Operation, is_wanted: Callable[[ir.Operation], bool]) -> bool:
    """Return whether an op, or one in its bodies, fulfils a condition."""
    is_present = False

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        nonlocal is_present
        is_present = is_wanted(op)
        return ir.WalkResult.INTERRUPT if is_present else ir.WalkResult.ADVANCE

    root.walk(visit_op, ir.WalkOrder.PRE_ORDER)
    return is_present


def has_fusions(module: ir.Module) -> bool:
    """Return whether a module contains fusions."""
    return bool(find_ops(module.operation, (FUSION,)))
