"""Records: dataclasses that take a fifth of the time to define, as only ``__init__`` is compiled.

``dataclass`` compiles up to six methods of each class from text: 0.45 ms for a frozen class of five
fields with Python 3.11, and the main job imports a hundred classes. Records share the other
methods, which do what those of a dataclass do.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from types import MemberDescriptorType
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")

_set_attribute = object.__setattr__


@dataclass_transform(field_specifiers=(field,))
def record(
    *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Callable[[type[T]], type[T]]:
    """Make a dataclass; the parameters are those of ``dataclass``.

    A frozen record may derive from a frozen dataclass, which takes twice as long. A frozen
    dataclass cannot derive from another frozen record. There is no ``InitVar`` or ``kw_only``.
    """

    def complete_class(cls: type[T]) -> type[T]:
        cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass would format a signature
        # dataclass refuses to derive from a frozen one what it does not freeze.
        parameters = getattr(cls, "__dataclass_params__", None)
        freezes = frozen and parameters is not None and parameters.frozen
        cls = dataclass(init=False, repr=False, eq=False, slots=slots, frozen=freezes)(cls)
        methods: dict[str, Any] = {"__repr__": _format_record}
        if eq:
            methods["__eq__"], compute_hash = _build_comparison(cls)
            if cls.__dict__.get("__hash__") is None:
                cls.__hash__ = compute_hash if frozen else None  # type: ignore[assignment]
        if frozen:
            methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
            methods |= {"__setstate__": _restore_state} if slots else {}
        for name in methods.keys() - cls.__dict__.keys():
            setattr(cls, name, methods[name])
        cls.__init__ = _compile_init(cls, frozen)  # type: ignore[misc]
        return cls

    return complete_class


def _compile_init(cls: type, frozen: bool) -> Callable[..., None]:
    """Compile the method that sets the fields, and then calls ``__post_init__``."""
    namespace: dict[str, Any] = {"set_attribute": _set_attribute, "MISSING": MISSING}
    parameters, statements = ["self"], []
    for declared in fields(cls):  # type: ignore[arg-type]
        name = value = declared.name
        has_factory = declared.default_factory is not MISSING
        default = declared.default_factory if has_factory else declared.default
        if not declared.init and default is MISSING:
            continue
        namespace[f"default_{name}"] = default
        if has_factory:
            value = f"default_{name}()"
            if declared.init:
                parameters.append(f"{name}=MISSING")
                value = f"{value} if {name} is MISSING else {name}"
        elif declared.init:
            parameters.append(name if default is MISSING else f"{name}=default_{name}")
        else:
            value = f"default_{name}"
        if not frozen:
            statements.append(f"self.{name} = {value}")
        elif isinstance(slot := getattr(cls, name, None), MemberDescriptorType):
            # This takes half as long, because it need not find the slot by its name.
            namespace[f"set_{name}"] = slot.__set__
            statements.append(f"set_{name}(self, {value})")
        else:
            statements.append(f"set_attribute(self, '{name}', {value})")
    if hasattr(cls, "__post_init__"):
        statements.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(statements), namespace)
    method = namespace["__init__"]
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    return method


def _build_comparison(cls: type) -> tuple[Callable[..., bool], Callable[[Any], int]]:
    """Return ``__eq__`` and ``__hash__``, which compare the fields as one tuple."""
    names = [declared.name for declared in fields(cls) if declared.compare]  # type: ignore[arg-type]
    # The getter of a single name returns no tuple.
    get_values = operator.attrgetter(*(names if len(names) > 1 else names * 2))

    def is_equal(self: Any, other: Any) -> bool:
        if other.__class__ is self.__class__:
            return get_values(self) == get_values(other)
        return NotImplemented

    return is_equal, lambda self: hash(get_values(self))


@reprlib.recursive_repr()
def _format_record(self: Any) -> str:
    values = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _refuse_assignment(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _restore_state(self: Any, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
    """Restore the state that ``object.__getstate__`` returns for a class with slots."""
    for part in state:
        for name, value in (part or {}).items():
            _set_attribute(self, name, value)
