"""``record`` makes what ``dataclass`` makes, in a part of the time."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import pytest

from hespas.support.records import record

FLAGS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
]


def define_classes(make: Callable[..., Any], flags: dict[str, bool]) -> tuple[type, type, type]:
    @make(**flags)
    class Base:
        """A base with each kind of field."""

        unit: ClassVar[str] = "s"
        name: str
        sizes: list[int] = field(default_factory=list)
        scale: float = 2.0
        cached: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
        fixed: int = field(default=3, init=False)

        def __post_init__(self) -> None:
            self.sizes.append(len(self.name))

    @make(**flags)
    class Derived(Base):
        scale: float = 4.0
        next: Any = None

    @make(**flags)
    class Single:
        value: float

        def __repr__(self) -> str:
            return "its own"

    return Base, Derived, Single


def describe_call(function: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error; ``C`` for the class names of both kinds."""
    try:
        return function()
    except (TypeError, AttributeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "flags", FLAGS, ids=lambda flags: "-".join(name for name, is_set in flags.items() if is_set)
)
def test_record_behaves_as_dataclass(flags: dict[str, bool]) -> None:
    def describe(make: Callable[..., Any]) -> list[Any]:
        base, derived, single = define_classes(make, flags)
        one, same, other = derived("a", [1]), derived("a", [1]), derived("a", [2], next="b")
        nan = float("nan")
        return [
            [(f.name, f.compare, f.repr, f.init) for f in fields(derived)],
            str(inspect.signature(derived)).count("="),
            derived.__match_args__,
            dataclasses.asdict(other),
            dataclasses.asdict(dataclasses.replace(one, name="abc")),
            describe_call(lambda: derived()),
            describe_call(lambda: derived("a", [], 1.0, {}, None, 5)),
            describe_call(lambda: derived("a", fixed=5)),
            repr(one),
            repr(single(1.0)),
            (one == same, one == other, one != same, one == base("a", [1]), one == 1),
            (single(nan) == single(nan), single(1.0) == single(2.0)),
            describe_call(lambda: hash(single(1.0)) == hash(single(1.0))),
            describe_call(lambda: setattr(one, "scale", 1.0)),
            describe_call(lambda: delattr(one, "next")),
            describe_call(lambda: one.unknown),
            dataclasses.asdict(copy.deepcopy(other)),
            base.__doc__,
        ]

    assert describe(record) == describe(dataclass)


@record(frozen=True, slots=True)
class Pickled:
    name: str
    sizes: tuple[int, ...]


def test_frozen_record_with_slots_is_pickled() -> None:
    made = Pickled("a", (1, 2))
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == made
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.unknown = "b"  # type: ignore[attr-defined]


def test_recursive_record_is_shown() -> None:
    _, derived, _ = define_classes(record, {})
    made = derived("a")
    made.next = made
    assert repr(made).endswith("next=...)")


def test_frozen_records_derive_from_frozen_dataclasses_and_the_reverse() -> None:
    @dataclass(frozen=True)
    class Root:
        name: str = ""

    @record(frozen=True)
    class Middle(Root):
        size: int = 1

    @dataclass(frozen=True)
    class Leaf(Middle):
        scale: float = 2.0

    assert repr(Leaf("a", 2)).endswith("Leaf(name='a', size=2, scale=2.0)")
    assert Leaf("a") == Leaf("a") and len({Leaf("a"), Leaf("a"), Leaf("b")}) == 2
    assert Middle("a") == Middle("a") != Root("a")
    for made in (Middle(), Leaf()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.name = "b"  # type: ignore[misc]


def test_frozen_dataclass_does_not_derive_from_record() -> None:
    with pytest.raises(TypeError, match="cannot inherit"):

        @dataclass(frozen=True)
        class Derived(Pickled):
            pass
