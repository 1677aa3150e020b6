"""xDSL attributes that hold objects of MLIR's bindings."""

from __future__ import annotations

from typing import Any

from xdsl.ir import BuiltinAttribute, Data, TypeAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class NativeObject(Data[Any], BuiltinAttribute):
    """A native object in an xDSL module; it prints as native text and cannot be parsed."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error(f"{cls.name} cannot be parsed")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data))

    def print_builtin(self, printer: Printer) -> None:
        self.print_parameter(printer)


class NativeAttr(NativeObject):
    """An attribute without an exact xDSL form (``ir.Attribute``)."""

    name = "hespas.native_attr"


class NativeText(NativeObject):
    """The text of an attribute that the bindings cannot return: a complex dense constant."""

    name = "hespas.native_text"


class NativeType(NativeObject, TypeAttribute):
    """A type without an exact xDSL form (``ir.Type``)."""

    name = "hespas.native_type"


class NativeLoc(NativeObject):
    """A source location (``ir.Location``); those of xDSL have no ranges."""

    name = "hespas.native_loc"


NATIVE = (NativeAttr, NativeType, NativeText)
FORWARD = "an operand is defined further down; such a graph region cannot cross the bridge"
