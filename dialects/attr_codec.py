"""Reading and writing of ``hespas`` attributes on MLIR operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from typing import Any, TypeVar

from hespas.dialects.attr_schema import AttrField, AttrRecord, list_attr_fields
from hespas.dialects.attrs import BRANCH, BRANCH_FOUND, COMMUNICATORS, TRIPS, CommAttr
from hespas.dialects.mlir import (
    ir,
    list_dictionary_entries,
    to_f64_attr,
    to_i64_attr,
)
from hespas.support.errors import HespasError
from hespas.support.records import record

_Record = TypeVar("_Record", bound=AttrRecord)


def build_dictionary_attr(
    record: AttrRecord, context: ir.Context, op: ir.Operation | None
) -> ir.DictAttr:
    """Return the dictionary form of a record, without defaults and what follows from the op."""
    entries = {}
    derived = {} if op is None else record.derive_fields(op)
    for name, declared, codec, _ in _list_field_codecs(type(record)):
        value = getattr(record, name)
        if value is not None and value != derived.get(name, declared.default):
            entries[name] = codec.write(value, context)
    return ir.DictAttr.get(entries, context)


def parse_dictionary_attr(
    record_class: type[_Record], attr: ir.Attribute, op: ir.Operation | None
) -> _Record:
    """Return the record in a dictionary attribute.

    Raises:
        HespasError: The attribute violates the schema; the message names ``op``.
    """
    title = record_class.NAME
    if not isinstance(attr, ir.DictAttr):
        raise HespasError(f"{title} must be a dictionary, not {attr}", op=op)
    values: dict[str, Any] = {}
    missing = []
    for name, declared, codec, is_required in _list_field_codecs(record_class):
        if is_required or name in attr:
            try:
                values[name] = codec.read(attr[name])
            except KeyError:
                raise HespasError(
                    f"{title} lacks the field '{name}'", op=op, remedy=f"add it, or remove {title}"
                ) from None
            except (TypeError, ValueError, AttributeError):
                message = (
                    f"{title}: field '{name}' must be {declared.kind.description}, not {attr[name]}"
                )
                raise HespasError(message, op=op) from None
        elif declared.is_derived:
            missing.append(declared)
    if len(values) < len(attr):
        known = [declared.name for declared in list_attr_fields(record_class)]
        extra = next(name for name, _ in list_dictionary_entries(attr) if name not in known)
        raise HespasError(
            f"{title} has an unknown field '{extra}'",
            op=op,
            remedy=f"its fields are {', '.join(known)}",
        )
    if missing:
        derived = {} if op is None else record_class.derive_fields(op)
        values |= {f.name: derived[f.name] for f in missing if f.name in derived}
        names = [f.name for f in missing if f.name not in values and f.default is MISSING]
        if names:
            raise HespasError(
                f"{title} lacks the field '{names[0]}', which does not follow from this op",
                op=op,
                remedy=f"state {', '.join(names)}, or remove {title}",
            )
    record = record_class(**values)
    violation = record_class.find_value_violation(values) or record.find_inconsistency()
    if violation:
        raise HespasError(f"{title}: {violation}", op=op, remedy=f"correct or remove {title}")
    return record


def _read_integer_attr(attr: Any) -> int:
    if type(attr) is not ir.IntegerAttr:  # a BoolAttr is none
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
    return attr.value_bytes.decode()  # `value` raises RuntimeError for text that is not UTF-8


def _read_bool_attr(attr: Any) -> bool:
    if not isinstance(attr, ir.BoolAttr):
        raise TypeError
    return attr.value


def _read_integer_array_attr(attr: Any) -> tuple[int, ...]:
    if isinstance(attr, ir.DenseIntElementsAttr):  # a portable artifact stores array<i64> so
        return tuple(attr[i] for i in range(len(attr)))
    if not isinstance(attr, ir.DenseI64ArrayAttr):
        raise TypeError
    return tuple(attr)


@record(frozen=True)
class _Codec:
    """Writes a Python value as an attribute, and reads it; TypeError for another attribute."""

    write: Callable[[Any, ir.Context], ir.Attribute]
    read: Callable[[ir.Attribute], Any]


_CODECS: dict[str, _Codec] = {  # by name of the field kind
    "int": _Codec(to_i64_attr, _read_integer_attr),
    "float": _Codec(to_f64_attr, _read_float_attr),
    "str": _Codec(lambda value, context: ir.StringAttr.get(value, context), _read_string_attr),
    "bool": _Codec(lambda value, context: ir.BoolAttr.get(value, context), _read_bool_attr),
    "ints": _Codec(
        lambda value, context: ir.DenseI64ArrayAttr.get(list(value), context),
        _read_integer_array_attr,
    ),
}


@functools.cache
def _list_field_codecs(
    record_class: type[AttrRecord],
) -> tuple[tuple[str, AttrField, _Codec, bool], ...]:
    """Return the fields of a record: name, declaration, codec, and whether it is required."""
    return tuple(
        (field.name, field, _CODECS[field.kind.name], field.is_required)
        for field in list_attr_fields(record_class)
    )


def read_trip_count(op: ir.Operation, name: str = TRIPS) -> int | None:
    """Return the trip count on a loop, or None if it has none.

    Args:
        op: The loop.
        name: ``hespas.trips``, or ``hespas.trips_found``.

    Raises:
        HespasError: The attribute is not an i64.
    """
    return _read_integer(op, name)


def read_branch_number(op: ir.Operation, name: str = BRANCH) -> int | None:
    """Return the number of the branch of an ``if`` or ``case`` that runs, or None if it has none.

    Args:
        op: The op.
        name: ``hespas.branch``, or ``hespas.branch_found``.

    Raises:
        HespasError: The attribute is not an i64, or there is no such branch.
    """
    number = _read_integer(op, name)
    if number is not None and not 0 <= number < len(op.regions):
        raise HespasError(f"{name} is {number}, of {len(op.regions)} branches", op=op)
    return number


def read_stated_branch(op: ir.Operation) -> int | None:
    """Return the number that somebody has stated for a branch; None for one that was found."""
    number = read_branch_number(op)
    return None if number == read_branch_number(op, BRANCH_FOUND) else number


def require_branch_number(op: ir.Operation) -> int:
    """Return the number of the branch that every estimate and trace assumes to run.

    Raises:
        HespasError: ``prepare`` has not chosen one.
    """
    number = read_branch_number(op)
    if number is None:
        remedy = "run prepare, which chooses it"
        raise HespasError("the branch that runs is not known", op=op, remedy=remedy)
    return number


def write_branch_number(op: ir.Operation, number: int) -> None:
    """Write the branch that runs; one that ``prepare`` found before and that holds is found."""
    is_found = read_stated_branch(op) is None
    op.attributes[BRANCH] = to_i64_attr(number, op.context)
    if is_found:
        op.attributes[BRANCH_FOUND] = op.attributes[BRANCH]


def _read_integer(op: ir.Operation, name: str) -> int | None:
    if name not in op.attributes:
        return None
    attr = op.attributes[name]
    if not isinstance(attr, ir.IntegerAttr):
        raise HespasError(f"{name} must be an i64, not {attr}", op=op)
    return attr.value


def iterate_module_dictionary(
    module: ir.Module, attribute: str
) -> Iterator[tuple[str, ir.Attribute | None]]:
    """Yield the entries of a dictionary attribute of the module, none if it is missing."""
    attributes = module.operation.attributes
    if attribute not in attributes:
        return
    dictionary = attributes[attribute]
    if not isinstance(dictionary, ir.DictAttr):
        raise HespasError(f"{attribute} must be a dictionary", op=module.operation)
    yield from list_dictionary_entries(dictionary)


def read_communicators(module: ir.Module) -> dict[int, tuple[int, ...]]:
    """Return the communicators of a module: ascending device ids by communicator id.

    Raises:
        HespasError: The attribute has another form.
    """
    ranks_by_id = {}
    for name, ranks in iterate_module_dictionary(module, COMMUNICATORS):
        if not name.isdecimal() or not isinstance(ranks, ir.DenseI64ArrayAttr):
            message = f"{COMMUNICATORS} must map ids to array<i64>, not {name} to {ranks}"
            raise HespasError(message, op=module.operation)
        ranks_by_id[int(name)] = tuple(ranks)
    return ranks_by_id


def build_unknown_communicator_error(op: ir.Operation, number: int) -> HespasError:
    """Build the error for a communicator of an op that the module does not define."""
    definition = f'{COMMUNICATORS} = {{"{number}" = array<i64: ...>}}'
    return HespasError(
        f"{CommAttr.NAME}: communicator {number} is not in {COMMUNICATORS}",
        op=op,
        remedy=f"name its devices: {definition} on the module",
    )


def write_communicators(module: ir.Module, groups: dict[int, tuple[int, ...]]) -> None:
    """Set the communicators of a module: ascending device ids by communicator id, from 1."""
    with module.context:
        entries: dict[str, ir.Attribute] = {
            str(i): ir.DenseI64ArrayAttr.get(list(ranks)) for i, ranks in groups.items()
        }
        module.operation.attributes[COMMUNICATORS] = ir.DictAttr.get(entries)
