"""The ``hespas`` attributes: one dataclass each, which is schema, documentation, reader and writer.

On the IR an attribute is a discardable dictionary of builtin attributes (``hespas.cost = {flops =
4 : i64, ...}``), so that an annotated module stays valid in every MLIR tool. The Python type of a
field decides its attribute: ``int`` is ``i64``, ``float`` is ``f64``, ``str`` a string, ``bool`` a
bool, ``tuple[int, ...]`` an ``array<i64>``. A field whose default is ``None`` is left out when
unset.
"""

from __future__ import annotations

import functools
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self, get_type_hints

from hespas.dialects.mlir import TRIPS, ir, to_f64_attr, to_i64_attr
from hespas.dialects.vocabulary import BOUNDS, COMM_KINDS, COST_NUMBERS, KERNEL_KINDS, SPLITS
from hespas.support.errors import HespasError


def _document_field(text: str, *, default: Any = MISSING, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"doc": text, "choices": choices})


class AttrRecord:
    """Reading and writing of one dictionary attribute; subclasses are frozen dataclasses."""

    NAME: ClassVar[str]
    HOLDERS: ClassVar[str]

    def to_dictionary_attr(self, context: ir.Context) -> ir.DictAttr:
        """The dictionary attribute; fields that are ``None`` are left out."""
        entries = {}
        for name, kind in list_field_kinds(type(self)):
            value = getattr(self, name)
            if value is not None:
                entries[name] = _TO_ATTR[kind](value, context)
        return ir.DictAttr.get(entries, context)

    def write_to_op(self, op: ir.Operation) -> None:
        op.attributes[self.NAME] = self.to_dictionary_attr(op.context)

    @classmethod
    def read_from_op(cls, op: ir.Operation) -> Self | None:
        """The attribute on ``op``, or None; raises HespasError where it breaks the schema."""
        attributes = op.attributes
        return (
            cls.from_dictionary_attr(attributes[cls.NAME], op) if cls.NAME in attributes else None
        )

    @classmethod
    def from_dictionary_attr(cls, attr: ir.Attribute, op: ir.Operation | None = None) -> Self:
        """The record in ``attr``; ``op`` is named in the error where it breaks the schema."""
        if not isinstance(attr, ir.DictAttr):
            raise HespasError(f"{cls.NAME} must be a dictionary, not {attr}", op=op)
        values = {}
        for name, kind in list_field_kinds(cls):
            if name in attr:
                try:
                    values[name] = _FROM_ATTR[kind](attr[name])
                except (TypeError, ValueError, AttributeError):
                    message = (
                        f"{cls.NAME}: field '{name}' must be {KIND_NAMES[kind]}, not {attr[name]}"
                    )
                    raise HespasError(message, op=op) from None
            elif _is_required_field(cls, name):
                raise HespasError(f"{cls.NAME} lacks the field '{name}'", op=op)
        if len(values) < len(attr):
            known = [name for name, _ in list_field_kinds(cls)]
            extra = next(entry.name for entry in attr if entry.name not in known)
            message = f"{cls.NAME} has an unknown field '{extra}'"
            raise HespasError(message, op=op, remedy=f"its fields are {', '.join(known)}")
        record = cls(**values)
        problem = record.find_schema_violation()
        if problem:
            raise HespasError(f"{cls.NAME}: {problem}", op=op)
        return record

    def find_schema_violation(self) -> str:
        """What breaks the schema beyond types, or ""."""
        for name, choices in _list_field_choices(type(self)):
            value = getattr(self, name)
            if value is not None and value not in choices:
                return f"{name} is '{value}', not one of {', '.join(choices)}"
        return ""


@dataclass(frozen=True, slots=True)
class Cost(AttrRecord):
    """The cost of one execution of an op, kernel, region or call, loops in it multiplied out."""

    NAME: ClassVar[str] = "hespas.cost"
    HOLDERS: ClassVar[str] = "any op, kernel function, region function, call"

    estimator: str = _document_field("name of the estimator that wrote it")
    flops: int = _document_field("floating-point (or integer) operations")
    read_bytes: int = _document_field("bytes read from device memory")
    write_bytes: int = _document_field("bytes written to device memory")
    latency_ns: float = _document_field("time in nanoseconds")
    bound: str = _document_field("what limits it", choices=BOUNDS)
    dtype: str = _document_field(
        "element type whose peak rate applies; 'none' where there are no operations"
    )
    trips: int = _document_field("times the body runs: 1 except on loops", default=1)
    energy_nj: float | None = _document_field(
        "energy in nanojoules, where a power model is set", default=None
    )
    gap: str | None = _document_field(
        "why part of it could not be estimated; its time is missing", default=None
    )
    low_ns: float | None = _document_field(
        "lower end of the band that holds the time with 80 % probability, in nanoseconds; "
        "the band of a sum is the sum of the bands",
        default=None,
    )
    high_ns: float | None = _document_field("upper end of that band", default=None)
    tag: str | None = _document_field(
        "what is unsure of the constants behind it: extrapolated, transferred, assumed",
        default=None,
    )

    def find_schema_violation(self) -> str:
        for name in COST_NUMBERS:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                return f"{name} is {value}, less than 0"
        if (self.low_ns is None) != (self.high_ns is None):
            return "low_ns and high_ns come together"
        if self.low_ns is not None and self.high_ns is not None and self.low_ns > self.high_ns:
            return f"low_ns is {self.low_ns}, more than high_ns, {self.high_ns}"
        return AttrRecord.find_schema_violation(self)


@dataclass(frozen=True, slots=True)
class KernelAttr(AttrRecord):
    """One launched kernel."""

    NAME: ClassVar[str] = "hespas.kernel"
    HOLDERS: ClassVar[str] = "kernel function, fusion or op"

    kind: str = _document_field("what kind of kernel", choices=KERNEL_KINDS)


@dataclass(frozen=True, slots=True)
class RegionAttr(AttrRecord):
    """One compute region: an outlined function, the calls to it, or a single op left in place."""

    NAME: ClassVar[str] = "hespas.region"
    HOLDERS: ClassVar[str] = "region function, its calls, a single op left in place"

    id: int = _document_field("number in program order, from 0")
    ops: int = _document_field("ops in the region, nested ones not counted")
    digest: str = _document_field("content hash: equal digest, equal cost")


@dataclass(frozen=True, slots=True)
class CommAttr(AttrRecord):
    """One collective or point-to-point operation, in device ids."""

    NAME: ClassVar[str] = "hespas.comm"
    HOLDERS: ClassVar[str] = "collective or point-to-point op"

    kind: str = _document_field("which collective", choices=COMM_KINDS)
    operand_bytes: int = _document_field("bytes of the operands on one device")
    result_bytes: int = _document_field("bytes of the results on one device")
    groups: tuple[int, ...] = _document_field(
        "communicator ids, keys of hespas.communicators; empty: permute"
    )
    pairs: tuple[int, ...] = _document_field(
        "permute: source, target, source, target, ... device ids; broadcast: source and lowest "
        "member of each group where they differ",
        default=(),
    )
    is_async: bool = _document_field(
        "it overlaps the ops up to the hespas.wait on its result", default=False
    )
    note: str | None = _document_field(
        "an assumption made, e.g. an upper bound of a ragged size", default=None
    )

    @property
    def sent_bytes(self) -> int:
        """Operand bytes where data moves between devices, else 0: nobody else is in the groups."""
        return self.operand_bytes if self.groups or self.pairs else 0


@dataclass(frozen=True, slots=True)
class TargetAttr(AttrRecord):
    """What the module runs on, and where the constants of its annotation come from."""

    NAME: ClassVar[str] = "hespas.target"
    HOLDERS: ClassVar[str] = "module"

    devices: int = _document_field("replicas x partitions")
    replicas: int = _document_field("device id = replica * partitions + partition")
    partitions: int = _document_field("see replicas")
    node: str | None = _document_field(
        "node preset or file the annotation was made for", default=None
    )
    estimator: str | None = _document_field("estimator and its version", default=None)
    constants: str | None = _document_field("provenance of the constants", default=None)
    node_overrides: str | None = _document_field(
        "options that changed the node for this annotation, as `key=value;key=value` in their "
        "spelling on the command line",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class SplitAttr(AttrRecord):
    """How the module was split; ``emit-chakra`` adds program order to the data flow for linear."""

    NAME: ClassVar[str] = "hespas.split"
    HOLDERS: ClassVar[str] = "module"

    strategy: str = _document_field("linear or individual", choices=SPLITS)
    merge: bool = _document_field(
        "individual: ops that no collective tells apart share a region", default=False
    )
    block_limit: int = _document_field("most ops in a region; 0 for no limit", default=0)


@dataclass(frozen=True, slots=True)
class MemoryAttr(AttrRecord):
    """The memory that the program takes on one device."""

    NAME: ClassVar[str] = "hespas.memory"
    HOLDERS: ClassVar[str] = "module"

    peak_bytes: int = _document_field(
        "bytes that it takes, with a place for each buffer: results have theirs from the start"
    )
    live_bytes: int = _document_field("most bytes live at one point of the program")
    argument_bytes: int = _document_field("of these: arguments, and results that replace them")
    result_bytes: int = _document_field("of these: other results")
    constant_bytes: int = _document_field("of these: constants")
    temporary_bytes: int = _document_field("of these: everything else")
    op: str = _document_field("the op at that point")
    points: int = _document_field(
        "points of the program: its kernels, collectives and ends of blocks"
    )
    timeline_points: tuple[int, ...] = _document_field("some points of the program, ascending")
    timeline_bytes: tuple[int, ...] = _document_field(
        "bytes live at each of them, the highest near it"
    )
    parameter_bytes: int | None = _document_field(
        "of argument_bytes: model parameters, where the arguments' names tell", default=None
    )
    optimizer_bytes: int | None = _document_field(
        "of argument_bytes: optimizer state, where the arguments' names tell", default=None
    )
    activation_bytes: int | None = _document_field(
        "of temporary_bytes: made in the forward pass and read in the backward pass, where the "
        "ops' names tell",
        default=None,
    )
    location: str | None = _document_field("where op is from", default=None)


RECORDS: tuple[type[AttrRecord], ...] = (
    Cost,
    KernelAttr,
    RegionAttr,
    CommAttr,
    TargetAttr,
    SplitAttr,
    MemoryAttr,
)
BY_NAME: dict[str, type[AttrRecord]] = {record.NAME: record for record in RECORDS}

WAIT = "hespas.wait"  # unit attribute: an optimization_barrier that ends an async collective
COMMUNICATORS = "hespas.communicators"  # module: {"1" = array<i64: device ids, ascending>, ...}
TRIPS_NOTE = "hespas.trips_note"  # string: the trip count is assumed or given, and why
FACTS = "hespas.facts"  # module: {"parameters" = 8030261248 : i64, ...}
ASSUMED = "assumed"  # in a trips_note: nobody gave the count, so the cost of the loop has a gap
PLAIN: dict[str, tuple[str, str]] = {
    TRIPS: ("stablehlo.while", "times the loop body runs, an i64"),
    TRIPS_NOTE: ("stablehlo.while", "why the trip count is not the program's own, a string"),
    WAIT: ("stablehlo.optimization_barrier", "unit: here an async collective must have finished"),
    COMMUNICATORS: (
        "module",
        "dictionary from communicator id, from 1, to its ascending device ids",
    ),
    FACTS: (
        "module",
        "dictionary of what was known when it was exported, of all devices: parameters, "
        "tokens_per_step, images_per_step, flops_per_step (each an i64 or f64), or a string",
    ),
}


def read_communicators(module: ir.Module) -> dict[int, tuple[int, ...]]:
    """The communicators of a module: id to ascending device ids; raises HespasError."""
    attributes = module.operation.attributes
    if COMMUNICATORS not in attributes:
        return {}
    attr = attributes[COMMUNICATORS]
    if not isinstance(attr, ir.DictAttr):
        raise HespasError(f"{COMMUNICATORS} must be a dictionary", op=module.operation)
    result = {}
    for entry in attr:
        ranks = attr[entry.name]
        if not entry.name.isdecimal() or not isinstance(ranks, ir.DenseI64ArrayAttr):
            message = f"{COMMUNICATORS} must map ids to array<i64>, not {entry.name} to {ranks}"
            raise HespasError(message, op=module.operation)
        result[int(entry.name)] = tuple(ranks)
    return result


def write_communicators(module: ir.Module, groups: dict[int, tuple[int, ...]]) -> None:
    """Write the communicators of a module; ids from 1, ranks ascending."""
    with module.context:
        entries: dict[str, ir.Attribute] = {
            str(i): ir.DenseI64ArrayAttr.get(list(ranks)) for i, ranks in groups.items()
        }
        module.operation.attributes[COMMUNICATORS] = ir.DictAttr.get(entries)


def read_trip_count(op: ir.Operation) -> int | None:
    """The trip count that ``prepare`` wrote on a loop, or None; raises HespasError."""
    if TRIPS not in op.attributes:
        return None
    attr = op.attributes[TRIPS]
    if not isinstance(attr, ir.IntegerAttr):
        raise HespasError(f"{TRIPS} must be an i64, not {attr}", op=op)
    return attr.value


KIND_NAMES = {
    "int": "an i64",
    "float": "an f64",
    "str": "a string",
    "bool": "a bool",
    "ints": "an array<i64>",
}


@functools.cache
def list_field_kinds(cls: type[AttrRecord]) -> tuple[tuple[str, str], ...]:
    """(field, kind of attribute: a key of ``KIND_NAMES``) of a record, in order."""
    names = {int: "int", float: "float", str: "str", bool: "bool"}
    hints = get_type_hints(cls)
    result = []
    for f in fields(cls):  # type: ignore[arg-type]
        hint = hints[f.name]
        options = [t for t in getattr(hint, "__args__", ()) if t is not type(None)]
        if hint not in names and getattr(hint, "__origin__", None) is not tuple:
            hint = options[0]
        result.append((f.name, names.get(hint, "ints")))
    return tuple(result)


@functools.cache
def _list_field_choices(cls: type[AttrRecord]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(field, the words it may hold) of the fields that may hold some only."""
    named = ((f.name, f.metadata["choices"]) for f in fields(cls))  # type: ignore[arg-type]
    return tuple((name, choices) for name, choices in named if choices)


def _is_required_field(cls: type[AttrRecord], name: str) -> bool:
    return cls.__dataclass_fields__[name].default is MISSING  # type: ignore[attr-defined]


_TO_ATTR: dict[str, Any] = {
    "int": to_i64_attr,
    "float": to_f64_attr,
    "str": lambda value, context: ir.StringAttr.get(value, context),
    "bool": lambda value, context: ir.BoolAttr.get(value, context),
    "ints": lambda value, context: ir.DenseI64ArrayAttr.get(list(value), context),
}


def _read_integer_attr(attr: Any) -> int:
    if not isinstance(attr, ir.IntegerAttr) or isinstance(attr, ir.BoolAttr):
        raise TypeError
    if attr.type.width != 64:  # type: ignore[attr-defined]
        raise TypeError
    return attr.value


def _read_float_attr(attr: Any) -> float:
    if not isinstance(attr, ir.FloatAttr):
        raise TypeError
    return attr.value


def _read_string_attr(attr: Any) -> str:
    if not isinstance(attr, ir.StringAttr):
        raise TypeError
    return attr.value


def _read_bool_attr(attr: Any) -> bool:
    if not isinstance(attr, ir.BoolAttr):
        raise TypeError
    return attr.value


def _read_integer_array_attr(attr: Any) -> tuple[int, ...]:
    if isinstance(attr, ir.DenseIntElementsAttr):  # what a portable artifact makes of array<i64>
        return tuple(attr[i] for i in range(len(attr)))
    if not isinstance(attr, ir.DenseI64ArrayAttr):
        raise TypeError
    return tuple(attr)


_FROM_ATTR: dict[str, Any] = {
    "int": _read_integer_attr,
    "float": _read_float_attr,
    "str": _read_string_attr,
    "bool": _read_bool_attr,
    "ints": _read_integer_array_attr,
}
