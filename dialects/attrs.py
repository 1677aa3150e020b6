"""The ``hespas`` attributes: the one declaration that everything else is made from.

One frozen dataclass declares one attribute; each field declares its type, default, permitted words
and description (``attr_schema``). The reader and writer of MLIR modules (``attr_codec``), the xDSL
dialect (``xdsl_dialect``), ``hespas.irdl``, the reference page and the value checks of the verifier
are derived from it. This module imports no MLIR bindings.
"""

from __future__ import annotations

import bisect
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hespas.dialects.attr_schema import AttrRecord, declare_field
from hespas.support.records import record

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir

# How a field of a cost adds up over the kernels of a program (``estimators/aggregate.py``).
SUM = "sum"  # an amount; an absent one counts as 0
TIME = "part of the time"  # an amount that ``Cost.time_ns`` contains
LARGEST = "largest"  # a sum has that of its largest cost; an absent one does not count
OWN_RULE = "rule of its own"
ONE_KERNEL = "of one kernel"  # sums have the default
LIMITS = {  # what may limit the time of a kernel, with its meaning
    "compute": "operations at the full rate of their units; of estimators that model the units of "
    "an accelerator, those of the arrays",
    "fill": "arrays that the shapes of the products fill badly, so that more than half of their "
    "time is lost",
    "vector": "operations of the vector unit of an accelerator",
    "sram": "the bandwidth of the on-chip memory",
    "memory": "the bandwidth of the device memory",
    "power": "the power limit, which lowers the clock",
    "launch": "the launches of kernels",
    "latency": "a wait that neither operations nor bytes explain",
}
BOUNDS = {
    **LIMITS,
    "measured": "not known, because the time was measured",
    "none": "the op takes no time",
    "unknown": "the time is not known",
}
COMM_KINDS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "permute",
)  # fmt: skip
SLICES, HOST_LINK = NETWORKS = ("slices", "host")  # what carries data beside links of devices
KERNEL_KINDS = (
    "loop", "reduction", "transpose", "copy", "gemm", "conv", "attention", "sort", "gather",
    "scatter", "scan", "fft", "rng", "linalg", "custom", "control", "free",
)  # fmt: skip
SPLITS = ("linear", "individual")


@record(frozen=True, slots=True)
class Cost(AttrRecord):
    """The cost of one execution of an op, kernel, region or call, all trips of loops included."""

    NAME: ClassVar[str] = "hespas.cost"
    HOLDERS: ClassVar[str] = (
        "any op, kernel function, region function, call; an op that is always free, such as a "
        "reshape, has none, nor has a collective or the end of a block, for which a cost that you "
        "state is refused"
    )

    estimator: str = declare_field("name of the estimator that wrote the cost", adds=OWN_RULE)
    flops: int = declare_field("number of floating-point or integer operations", adds=SUM)
    read_bytes: int = declare_field("bytes read from device memory", adds=SUM)
    write_bytes: int = declare_field("bytes written to device memory", adds=SUM)
    latency_ns: float = declare_field("time in nanoseconds", adds=TIME)
    bound: str = declare_field(
        "what limits the time; `none` on sums, and if it takes none",
        choices=tuple(BOUNDS),
        default="none",
        adds=ONE_KERNEL,
    )
    dtype: str = declare_field(
        "element type whose peak rate applies; `none` on sums, and if there are no operations",
        default="none",
        adds=ONE_KERNEL,
    )
    trips: int = declare_field(
        "number of times the body runs; 1 except on loops", default=1, adds=OWN_RULE
    )
    energy_nj: float | None = declare_field(
        "energy in nanojoules, if a power model is set", default=None, adds=SUM
    )
    gap: str | None = declare_field(
        "why a part could not be estimated; the time of that part is missing",
        default=None,
        adds=OWN_RULE,
    )
    low_ns: float | None = declare_field(
        "lower end, in nanoseconds, of the band that contains the time with a probability of 80 %; "
        "the band of a sum is the sum of the bands",
        default=None,
        adds=OWN_RULE,
    )
    high_ns: float | None = declare_field(
        "upper end of the band in nanoseconds", default=None, adds=OWN_RULE
    )
    tag: str | None = declare_field(
        "what is uncertain about the constants: `extrapolated`, `transferred`, `assumed`, "
        "separated by blanks",
        default=None,
        adds=OWN_RULE,
    )
    kernel_class: str | None = declare_field(
        "class of kernels of the estimator, such as `product.bf16` or `stream.loop`; absent on "
        "sums",
        default=None,
        adds=ONE_KERNEL,
    )
    shared_low_ns: float | None = declare_field(
        "lower end of the part of the band that all kernels of the family share; absent on sums",
        default=None,
        adds=ONE_KERNEL,
    )
    shared_high_ns: float | None = declare_field(
        "upper end of that part", default=None, adds=ONE_KERNEL
    )
    slowest_device: float | None = declare_field(
        "factor in the time of matrix operations for the slowest device of the job, because chips "
        "differ at the power limit; absent on sums",
        default=None,
        adds=ONE_KERNEL,
    )
    compute_nj: float | None = declare_field(
        "part of energy_nj: operations, if the energy is known by level", default=None, adds=SUM
    )
    sram_nj: float | None = declare_field(
        "part of energy_nj: on-chip memory", default=None, adds=SUM
    )
    memory_nj: float | None = declare_field(
        "part of energy_nj: device memory", default=None, adds=SUM
    )
    leakage_nj: float | None = declare_field(
        "part of energy_nj: what the chip draws while nothing switches", default=None, adds=SUM
    )
    integer_product_flops: int | None = declare_field(
        "part of flops: matrix products and convolutions of integers; absent if there are none, "
        "and on sums",
        default=None,
        adds=ONE_KERNEL,
    )
    digest: str | None = declare_field(
        "hashes of the content of the op or region that was estimated, of the estimator and its "
        "constants, and of the other fields, joined by `_`; a cost with another digest is stale; "
        "absent on sums, which follow from the costs of their ops, and on a cost that you state",
        default=None,
        compare=False,
        adds=ONE_KERNEL,
    )

    @property
    def time_ns(self) -> float:
        """The time in nanoseconds: ``latency_ns`` and the other parts."""
        time_ns = self.latency_ns
        for name in _OTHER_TIMES:
            time_ns += getattr(self, name) or 0.0
        return time_ns

    @property
    def executed_flops(self) -> int:
        """The operations that utilisation counts.

        Of integers, these are the products. Others compute indices and random numbers, which no
        model counts as its operations.
        """
        return (self.integer_product_flops or 0) if self.dtype.startswith("i") else self.flops

    def is_stated(self, target: TargetAttr | None) -> bool:
        """Return whether somebody has stated the cost, so that it is neither an estimate nor a sum.

        Args:
            target: The target of the module; sums name its estimator.
        """
        if self.digest is not None:
            return False
        if target is None or target.estimator is None or target.pipeline is None:
            return True
        return target.estimator.partition(" ")[0] not in self.estimator.split("+")

    @classmethod
    def find_stated(cls, op: ir.Operation, target: TargetAttr | None) -> Cost | None:
        """Return the cost that somebody has stated for an op; None without one that changes a sum.

        Args:
            op: The op.
            target: As of ``is_stated``.
        """
        cost = cls.read_from_op(op)
        if cost is None or not cost.is_stated(target):
            return None
        return cost if any(getattr(cost, name) for name in AMOUNTS) else None

    def find_inconsistency(self) -> str:
        if (self.low_ns is None) != (self.high_ns is None):
            return "low_ns and high_ns come together"
        if self.low_ns is not None and self.high_ns is not None and self.low_ns > self.high_ns:
            return f"low_ns is {self.low_ns}, more than high_ns, {self.high_ns}"
        if (self.shared_low_ns is None) != (self.shared_high_ns is None):
            return "shared_low_ns and shared_high_ns come together"
        return ""


AMOUNTS = tuple(one.name for one in fields(Cost) if one.metadata["adds"] in (SUM, TIME))
COUNTS = tuple(one.name for one in fields(Cost) if one.name in AMOUNTS and one.type == "int")
"""The amounts that every cost has, beside its latency."""
OTHER_AMOUNTS = tuple(name for name in AMOUNTS if name not in (*COUNTS, "latency_ns"))
"""Amounts that a sum has if one of its costs has them."""
MAXIMA = tuple(one.name for one in fields(Cost) if one.metadata["adds"] == LARGEST)
"""What a sum has of its largest cost; all of them are optional."""
_OTHER_TIMES = tuple(
    one.name for one in fields(Cost) if one.metadata["adds"] == TIME and one.name != "latency_ns"
)


@record(frozen=True, slots=True)
class KernelAttr(AttrRecord):
    """What kind of kernel an op is, or a function that one kernel computes."""

    NAME: ClassVar[str] = "hespas.kernel"
    HOLDERS: ClassVar[str] = "kernel function, fusion or op"

    kind: str = declare_field("kind of kernel", choices=KERNEL_KINDS)


@record(frozen=True, slots=True)
class KernelCostAttr(AttrRecord):
    """The work that a user declared for one call of a kernel, or for an op that has no rule."""

    NAME: ClassVar[str] = "hespas.kernel_cost"
    HOLDERS: ClassVar[str] = "custom call, or an op that hespas has no cost rule for"

    flops: int = declare_field("number of operations")
    bytes: int = declare_field("bytes read from and written to device memory")
    kernel: str | None = declare_field(
        "name of the kernel, target or op that the option `kernel-cost` gave; `prepare` removes "
        "the attribute from an op of another name, to which another pass has copied it",
        default=None,
    )


@record(frozen=True, slots=True)
class CompilerEstimateAttr(AttrRecord):
    """What the compiler of the target expects of one execution of a kernel."""

    NAME: ClassVar[str] = "hespas.compiler_estimate"
    HOLDERS: ClassVar[str] = "kernel of a module that XLA:TPU has compiled"

    cycles: int = declare_field("clock cycles, XLA:TPU's estimated_cycles")
    latency_ns: float | None = declare_field(
        "the cycles at the clock of the target, in nanoseconds; absent if the target is not known",
        default=None,
    )
    refetched_bytes: int | None = declare_field(
        "bytes that a product reads from device memory again, by the windows in which the compiler "
        "divides it; absent if the windows are not known",
        default=None,
    )
    digest: str | None = declare_field(
        "content hash of the kernel that the compiler has timed; an estimate whose digest differs "
        "from that of its op counts for nothing. One without a digest was stated by somebody",
        default=None,
    )


@record(frozen=True, slots=True)
class OnChipAttr(AttrRecord):
    """The bytes that a kernel need not move, because values stay in the on-chip memory.

    They are those of one execution, on average over all, and depend on the size of the memory and
    on no other number of a device.
    """

    NAME: ClassVar[str] = "hespas.on_chip"
    HOLDERS: ClassVar[str] = "kernel"

    sram_bytes: tuple[int, ...] = declare_field(
        "sizes of the on-chip memory, ascending, from each of which on more bytes stay in it"
    )
    read_bytes: tuple[int, ...] = declare_field(
        "for each size: bytes of the operands that are still there"
    )
    write_bytes: tuple[int, ...] = declare_field(
        "for each size: bytes of the results that no kernel reads from device memory"
    )

    def find_kept_bytes(self, sram_bytes: int) -> tuple[int, int]:
        """Return the bytes that are not read and not written with a memory of a size."""
        number = bisect.bisect_right(self.sram_bytes, sram_bytes)
        return (self.read_bytes[number - 1], self.write_bytes[number - 1]) if number else (0, 0)

    def find_inconsistency(self) -> str:
        if not len(self.sram_bytes) == len(self.read_bytes) == len(self.write_bytes):
            return "its lists differ in length"
        if any(list(each) != sorted(each) for each in (self.sram_bytes, self.read_bytes)):
            return "its lists must ascend"
        return ""


@record(frozen=True, slots=True)
class RegionAttr(AttrRecord):
    """The region that a function or an op is: its number and its contents."""

    NAME: ClassVar[str] = "hespas.region"
    HOLDERS: ClassVar[str] = "region function, its calls, a single op that is a region"

    id: int = declare_field("number of the region in program order, from 0")
    ops: int = declare_field("number of ops in the region, without nested ones", derived=True)
    digest: str = declare_field("content hash; regions with equal digests have equal costs")

    @classmethod
    def derive_fields(cls, op: ir.Operation) -> dict[str, Any]:
        """A single op is a region of one op."""
        return {} if op.name in ("func.func", "func.call") else {"ops": 1}


@record(frozen=True, slots=True)
class CommAttr(AttrRecord):
    """One collective or point-to-point operation between device ids.

    On a custom call that hespas does not know as a collective, it is a statement, which holds. Its
    bytes are those of one device also in a module with global shapes, which XLA divides later.
    """

    NAME: ClassVar[str] = "hespas.comm"
    HOLDERS: ClassVar[str] = "collective or point-to-point op"

    kind: str = declare_field("kind of collective", choices=COMM_KINDS, derived=True)
    operand_bytes: int = declare_field("size of the operands on one device in bytes", derived=True)
    result_bytes: int = declare_field("size of the results on one device in bytes", derived=True)
    groups: tuple[int, ...] = declare_field(
        "communicator ids, the keys of `hespas.communicators`; empty for a permute", default=()
    )
    pairs: tuple[int, ...] = declare_field(
        "for a permute: source, target, source, target, ... device ids; for a broadcast: source "
        "and lowest member of each group in which they differ",
        default=(),
        derived=True,
    )
    is_async: bool = declare_field(
        "true if the collective runs alongside the ops up to the `hespas.wait` on its result",
        default=False,
    )
    note: str | None = declare_field(
        "an assumption about the size, such as an upper bound for a ragged operand", default=None
    )
    network: str | None = declare_field(
        "what carries the data: the network between slices of TPUs, or the link to the host; "
        "absent for the links between devices. Data of different networks moves at the same time",
        default=None,
        choices=NETWORKS,
    )
    copy_rounds: int = declare_field(
        "of a ragged all-to-all: the loads, each before its store, that a thread of XLA's kernel "
        "for GPUs of one host waits for, one after the other",
        default=0,
    )

    @classmethod
    def derive_fields(cls, op: ir.Operation) -> dict[str, Any]:
        from hespas.dialects.collective_sizes import derive_comm_fields

        return derive_comm_fields(op)

    def list_transfers(self) -> tuple[tuple[int, int], ...]:
        """List (source, target) of ``pairs``, without devices that send to themselves."""
        pairs = zip(self.pairs[::2], self.pairs[1::2], strict=True)
        return tuple((source, target) for source, target in pairs if source != target)

    @property
    def sent_bytes(self) -> int:
        """The bytes of the operands if data moves between devices, else 0."""
        return self.operand_bytes if self.groups or self.pairs else 0

    def find_inconsistency(self) -> str:
        if self.kind == "permute":
            return "a permute has pairs and no groups" if self.groups or len(self.pairs) % 2 else ""
        if self.pairs and self.kind != "broadcast":
            return "pairs are for a permute or a broadcast"
        return ""


@record(frozen=True, slots=True)
class TargetAttr(AttrRecord):
    """The devices that the module runs on, and the source of the constants of its annotation."""

    NAME: ClassVar[str] = "hespas.target"
    HOLDERS: ClassVar[str] = "module"

    devices: int = declare_field("number of devices: replicas x partitions")
    replicas: int = declare_field(
        "number of replicas; device id = replica * partitions + partition"
    )
    partitions: int = declare_field("number of partitions of each replica")
    node: str | None = declare_field(
        "node preset or file that the module was annotated for", default=None
    )
    estimator: str | None = declare_field("name and version of the estimator", default=None)
    constants: str | None = declare_field("provenance of the estimator's constants", default=None)
    node_overrides: str | None = declare_field(
        "options that replaced values of the node, as the command line spells them: "
        "`memory-bandwidth=1e11 tdp=400.0`",
        default=None,
    )
    job_devices: int | None = declare_field(
        "number of devices that the costs were estimated for; absent if they do not depend on it",
        default=None,
    )
    area_mm2: float | None = declare_field(
        "area of the chip of a device in square millimetres, if its files give it", default=None
    )
    leakage_w: float | None = declare_field(
        "power of a device while nothing switches, if its files give its energy", default=None
    )
    link_pj_per_byte: float | None = declare_field(
        "energy of a byte that a device sends, if its files give it", default=None
    )
    host_link_bytes_per_s: float | None = declare_field(
        "bytes per second between a device and its host, in each direction, if the node has them",
        default=None,
    )
    pipeline: str | None = declare_field(
        "the pass that annotated the module, with its options: `roofline-annotate{tdp=400.0}`; "
        "stale costs are estimated again with it",
        default=None,
    )

    def find_inconsistency(self) -> str:
        if self.devices != self.replicas * self.partitions:
            return (
                f"{self.devices} devices are not {self.replicas} replicas "
                f"x {self.partitions} partitions"
            )
        return ""


@record(frozen=True, slots=True)
class SplitAttr(AttrRecord):
    """How the module was split into regions.

    After a linear split, ``emit-chakra`` adds dependencies in program order to those of the data.
    """

    NAME: ClassVar[str] = "hespas.split"
    HOLDERS: ClassVar[str] = "module"

    strategy: str = declare_field("name of the split pass without `split-`", choices=SPLITS)
    merge: bool = declare_field(
        "individual strategy: true if ops share a region unless a collective separates them",
        default=False,
    )
    block_limit: int = declare_field("maximum number of ops in a region; 0 for no limit", default=0)
    separator: str | None = declare_field(
        "linear strategy: other ops that separate regions", default=None
    )
    separator_policy: str | None = declare_field(
        "linear strategy: place of such an op, if it is no region of its own", default=None
    )


@record(frozen=True, slots=True)
class MemoryAttr(AttrRecord):
    """The memory that the program uses on one device."""

    NAME: ClassVar[str] = "hespas.memory"
    HOLDERS: ClassVar[str] = "module"

    peak_bytes: int = declare_field(
        "peak memory in bytes, with an address range for each buffer; results have theirs from the "
        "start"
    )
    live_bytes: int = declare_field("highest number of bytes live at one point of the program")
    argument_bytes: int = declare_field(
        "part of live_bytes: arguments, and results that reuse their buffers"
    )
    result_bytes: int = declare_field("part of live_bytes: other results")
    constant_bytes: int = declare_field("part of live_bytes: constants")
    temporary_bytes: int = declare_field("part of live_bytes: temporary values")
    op: str = declare_field("name of the op at the point where live_bytes are live")
    points: int = declare_field(
        "number of points of the program: its kernels, collectives and ends of blocks"
    )
    timeline_points: tuple[int, ...] = declare_field("a sample of the points, ascending")
    timeline_bytes: tuple[int, ...] = declare_field(
        "bytes live at each sampled point: the maximum over the points that it stands for"
    )
    parameter_bytes: int | None = declare_field(
        "part of argument_bytes: model parameters, if the names of the arguments show them",
        default=None,
    )
    optimizer_bytes: int | None = declare_field(
        "part of argument_bytes: optimizer state, if the names of the arguments show it",
        default=None,
    )
    activation_bytes: int | None = declare_field(
        "part of temporary_bytes: values that the forward pass writes and the backward pass reads, "
        "if the names of the ops show them",
        default=None,
    )
    location: str | None = declare_field("source location of op", default=None)
    model_fusion: bool | None = declare_field(
        "whether the fusion of the compiler was modelled, if the user has chosen", default=None
    )
    digest: str | None = declare_field(
        "content hash of the ops with the sizes of their values and the ops that they read, in any "
        "order; a memory use whose digest differs from that of its program is stale",
        default=None,
    )

    def find_inconsistency(self) -> str:
        parts = (
            self.argument_bytes, self.result_bytes, self.constant_bytes, self.temporary_bytes,
        )  # fmt: skip
        if sum(parts) != self.live_bytes:
            return "live_bytes is not the sum of its parts"
        if self.peak_bytes < self.live_bytes:
            return "peak_bytes is less than live_bytes"
        if len(self.timeline_points) != len(self.timeline_bytes):
            return "the timeline's lists differ in length"
        return ""


RECORDS: tuple[type[AttrRecord], ...] = (
    Cost,
    KernelAttr,
    KernelCostAttr,
    CompilerEstimateAttr,
    OnChipAttr,
    RegionAttr,
    CommAttr,
    TargetAttr,
    SplitAttr,
    MemoryAttr,
)
BY_NAME: dict[str, type[AttrRecord]] = {record.NAME: record for record in RECORDS}


@record(frozen=True)
class PlainAttr:
    """An attribute that is not a record.

    Attributes:
        holders: The ops that carry it, of which those of StableHLO stand for those of MHLO, too;
            empty if any op may.
        kind: Its type, which is verified; its reader verifies what a dictionary contains.
        description: Its meaning, for the reference page.
    """

    holders: tuple[str, ...]
    kind: Literal["an i64", "a string", "`true`", "a dictionary"]
    description: str

    def describe_holders(self) -> str:
        """Return the ops that carry it, as text."""
        return ", ".join(self.holders).replace(MODULE, "module") or "any op that is a kernel"


TRIPS = "hespas.trips"
TRIPS_FOUND = "hespas.trips_found"
TRIPS_NOTE = "hespas.trips_note"
BRANCH = "hespas.branch"
BRANCH_FOUND = "hespas.branch_found"
WAIT = "hespas.wait"
RECOMPUTED = "hespas.recomputed"
RECOMPUTED_KERNEL = "hespas.recomputed_kernel"
RECOMPUTED_ORIGIN = "hespas.recomputed_origin"
ON_CHIP_PROGRAM = "hespas.on_chip_program"
COMMUNICATORS = "hespas.communicators"
FACTS = "hespas.facts"
UNFUSED_ATTENTION = "unfused_attention"  # a fact: calls that a framework has kernels for
GROUPED_PRODUCTS = "grouped_products"  # a fact: ragged products that a framework has kernels for
ASSUMED = "assumed"  # in a trips_note: the count is not known, so that the loop's cost has a gap
KERNEL_MARKS = frozenset(
    (
        KernelAttr.NAME,
        CompilerEstimateAttr.NAME,
        OnChipAttr.NAME,
        RegionAttr.NAME,
        RECOMPUTED,
        RECOMPUTED_KERNEL,
        RECOMPUTED_ORIGIN,
    )
)
"""What says something of a kernel or a region, so that the end of a block has none of it."""
MODULE = "builtin.module"
_LOOP, _BRANCHES = ("stablehlo.while",), ("stablehlo.case", "stablehlo.if")
PLAIN: dict[str, PlainAttr] = {
    TRIPS: PlainAttr(_LOOP, "an i64", "trip count of the loop"),
    TRIPS_FOUND: PlainAttr(
        _LOOP,
        "an i64",
        "trip count that `prepare` found in the ops of the loop; another `hespas.trips` beside it "
        "was stated by somebody, and holds",
    ),
    TRIPS_NOTE: PlainAttr(
        _LOOP,
        "a string",
        "why the trip count is not the one that the ops of the loop determine: it is assumed, or "
        "stated by the module or an option",
    ),
    BRANCH: PlainAttr(
        _BRANCHES,
        "an i64",
        "number of the branch that every estimate and trace assumes to run: the one that sends "
        "most bytes, then the one with most work, unless the IR determines the branch",
    ),
    BRANCH_FOUND: PlainAttr(
        _BRANCHES,
        "an i64",
        "number of the branch that `prepare` chose; another `hespas.branch` beside it was stated "
        "by somebody, and holds",
    ),
    WAIT: PlainAttr(
        ("stablehlo.optimization_barrier",),
        "`true`",
        "the point at which an asynchronous collective must have finished; a unit, which portable "
        "artifacts do not hold, is read too",
    ),
    RECOMPUTED: PlainAttr(
        (),
        "a string",
        "name of the instruction whose result XLA computes again with this kernel, to need less "
        "memory",
    ),
    RECOMPUTED_KERNEL: PlainAttr(
        (),
        "a string",
        "digest of the kernel that `hespas.recomputed` beside it is of; beside that of another op "
        "it counts for nothing, and a mark without a digest was stated by somebody",
    ),
    RECOMPUTED_ORIGIN: PlainAttr(
        (),
        "a string",
        "digest of the kernel that computed the result first; where it no longer runs, one kernel "
        "with the mark counts as the first",
    ),
    ON_CHIP_PROGRAM: PlainAttr(
        (MODULE,),
        "a string",
        "digest of the ops with the sizes of their values and the ops that they read, in any "
        "order: those of the program that `hespas.on_chip` of its kernels describes",
    ),
    COMMUNICATORS: PlainAttr(
        (MODULE,), "a dictionary", "from communicator id, from 1, to its ascending device ids"
    ),
    FACTS: PlainAttr(
        (MODULE,),
        "a dictionary",
        "figures that the exporter knows, summed over all devices: parameters, "
        "tokens_per_step, images_per_step, flops_per_step (each an i64 or f64); and strings, such "
        "as step_program, the digest of the shapes of arguments and results and of the devices of "
        "the program that these figures are of (beside another program they count for nothing), "
        "optimised_for, the target of xla-optimize, scheduler, which scheduler of XLA:GPU made "
        "the order of the program (latency-hiding, or memory), xla_flags, the flags that XLA got "
        "and the framework or preset that they are from, compile_memory_limit_bytes, the "
        "memory of a device that XLA has scheduled for, an i64, and flops_per_step_source, how the "
        "operations of the model were found",
    ),
}
