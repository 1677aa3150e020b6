"""Dialects that an IRDL file defines, for ops that the bindings do not know.

The bindings of jaxlib cannot load IRDL. Their ops are therefore read as unregistered ones, and are
verified by xDSL, which interprets the definitions of ops. Attributes and types of such a dialect
are read as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.irdl import IRDL
from xdsl.dialects.irdl.irdl import DialectOp, OperationOp
from xdsl.interpreters.irdl import make_dialect
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hespas.dialects.mlir import ir, walk_operations
from hespas.support.errors import HespasError, extract_first_line


@dataclass(frozen=True)
class IrdlDialects:
    """The dialects of IRDL files.

    Attributes:
        dialects: xDSL's form of them.
        op_names: The full names of their ops.
    """

    dialects: tuple[Dialect, ...]
    op_names: frozenset[str]

    def verify_module(self, module: ir.Module) -> None:
        """Verify the ops of these dialects in a module. Raises HespasError."""
        from hespas.dialects.xdsl_bridge import to_xdsl_module

        context = Context(allow_unregistered=True)
        for dialect in (builtin.Builtin, *self.dialects):
            context.load_dialect(dialect)
        # Both modules list their ops in the same order.
        native: list[ir.Operation] = []

        def collect_op(op: ir.Operation) -> ir.WalkResult:
            native.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(collect_op, ir.WalkOrder.PRE_ORDER)
        for op, copy in zip(native, to_xdsl_module(module, context).walk(), strict=True):
            if op.name in self.op_names:
                try:
                    copy.verify(verify_nested_ops=False)
                except VerifyException as error:
                    raise HespasError(extract_first_line(str(error)), op=op) from None

    def check_known_ops(self, module: ir.Module) -> None:
        """Raise HespasError for an op that neither the bindings nor the files define."""

        def check_op(op: ir.Operation) -> ir.WalkResult:
            name = op.name
            if name not in self.op_names and not op.context.is_registered_operation(name):
                raise HespasError(
                    "the op is of an unknown dialect",
                    op=op,
                    remedy="define it in an IRDL file, or read it with "
                    "--allow-unregistered-dialect",
                )
            return ir.WalkResult.ADVANCE

        walk_operations(module.operation, check_op)


def load_irdl_dialects(paths: Sequence[str]) -> IrdlDialects:
    """Load the dialects that IRDL files define.

    Raises:
        HespasError: A file cannot be read, or is not IRDL that xDSL knows.
    """
    dialects: list[Dialect] = []
    names: set[str] = set()
    for path in paths:
        context = Context()
        for dialect in (builtin.Builtin, IRDL):
            context.load_dialect(dialect)
        try:
            module = Parser(context, Path(path).read_text(), path).parse_module()
        except OSError as error:
            raise HespasError(f"cannot read it: {error.strerror}", where=path) from None
        except (ParseError, UnicodeDecodeError, VerifyException) as error:
            raise HespasError(f"not IRDL: {extract_first_line(str(error))}", where=path) from None
        for op in module.ops:
            if not isinstance(op, DialectOp):
                continue
            for inner in list(op.body.block.ops):
                if isinstance(inner, OperationOp):
                    names.add(f"{op.sym_name.data}.{inner.sym_name.data}")
                else:  # xDSL does not interpret definitions of attributes
                    inner.detach()
            try:
                dialects.append(make_dialect(op))
            except Exception as error:  # xDSL has no error of its own for what it cannot interpret
                reason = extract_first_line(str(error))
                raise HespasError(f"xDSL cannot interpret it: {reason}", where=path) from None
    return IrdlDialects(tuple(dialects), frozenset(names))
