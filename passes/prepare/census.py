"""The census of a module, so that steps of ``prepare`` without work are skipped."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import (
    collect_functions,
    count_op_names,
    find_attribute,
    find_ops,
    get_attribute,
    get_symbol_name,
    has_private_symbol,
    ir,
    list_dictionary_entries,
)
from hespas.dialects.op_kinds import (
    ASYNC,
    BRANCHES,
    CALLEE,
    CROSS_REPLICA_SUMS,
    CUSTOM_CALLS,
    FUSION,
    LOOPS,
    MAYBE_COLLECTIVE,
    SCANS,
    SHARDING_ATTRS,
    SIZE_SETTERS,
    find_entry_function,
    is_collective,
)
from hespas.dialects.op_table import write_op_code
from hespas.support.errors import HespasError
from hespas.support.records import record

REFERENCE = "func.constant"  # its value is the name of a function
RELEVANT_OPS = (
    MAYBE_COLLECTIVE
    | CROSS_REPLICA_SUMS
    | ASYNC
    | LOOPS
    | BRANCHES
    | SCANS
    | SIZE_SETTERS
    | CALLEE.keys()
    | {FUSION, REFERENCE}
)
MISNAMED_SHARDING = "sdy.sharding_per_value"  # the type of the attribute sdy.sharding
PLAIN_DIALECTS = ("stablehlo.", "mhlo.", "func.", "builtin.")


@record(slots=True)
class FunctionContents:
    """The ops of one function that some step of ``prepare`` handles, in program order.

    ``ops`` holds them with their names, and ``callees`` the names of called functions with the
    calling ops. Names are stored because reading ``op.name`` is slow. ``code`` is the bytecode of
    the function if it has been written.
    """

    function: ir.Operation
    ops: list[tuple[str, ir.Operation]] = field(default_factory=list)
    callees: list[tuple[str, ir.Operation]] = field(default_factory=list)
    code: bytes = b""

    def read_code(self) -> bytes:
        """Return the bytecode of the function."""
        self.code = self.code or write_op_code(self.function)
        return self.code

    def select_ops_by_name(self, *names: str) -> list[ir.Operation]:
        wanted = frozenset(names)
        return [op for name, op in self.ops if name in wanted]

    def communicates(self) -> bool:
        """Return whether there is a collective, or a call whose ``hespas.comm`` says that it is."""
        return any(
            is_collective(op) or CommAttr.NAME in op.attributes
            for op in self.select_ops_by_name(*MAYBE_COLLECTIVE)
        )


@record()
class ModuleCensus:
    """The functions of a module.

    Attributes:
        entry: The entry function.
        functions: The contents of all functions that it reaches, its own first.
        uncalled: The contents of those that only other public functions reach.
    """

    entry: ir.Operation
    functions: dict[str, FunctionContents]
    uncalled: dict[str, FunctionContents] = field(default_factory=dict)
    _sharded_ops: list[ir.Operation] | None = None

    @functools.cached_property
    def boundary_types(self) -> frozenset[ir.Type]:
        """The types of the arguments and results of the entry function."""
        kind = get_attribute(self.entry, "function_type").value
        return frozenset((*kind.inputs, *kind.results))

    def select_ops_by_name(self, *names: str) -> list[ir.Operation]:
        return [
            op for contents in self.functions.values() for op in contents.select_ops_by_name(*names)
        ]

    def list_collectives(self) -> list[ir.Operation]:
        return [op for op in self.select_ops_by_name(*MAYBE_COLLECTIVE) if is_collective(op)]

    def list_stated_collectives(self) -> list[ir.Operation]:
        """List the custom calls that are collectives only because their ``hespas.comm`` says so."""
        return [
            op
            for op in self.select_ops_by_name(*CUSTOM_CALLS)
            if CommAttr.NAME in op.attributes and not is_collective(op)
        ]

    def list_sharded_ops(self) -> list[ir.Operation]:
        """List all ops with a sharding, also those that no step handles.

        Raises:
            HespasError: An op has its sharding under the name of the attribute's type.
        """
        if self._sharded_ops is None:
            sharded_ops: list[ir.Operation] = []
            misnamed: list[ir.Operation] = []

            def collect_sharded_op(op: ir.Operation) -> ir.WalkResult:
                attributes = op.attributes
                if SHARDING_ATTRS[0] in attributes or SHARDING_ATTRS[1] in attributes:
                    sharded_ops.append(op)
                elif MISNAMED_SHARDING in attributes:
                    misnamed.append(op)
                return ir.WalkResult.ADVANCE

            names = [name.encode() for name in (*SHARDING_ATTRS, MISNAMED_SHARDING)]
            for contents in self.functions.values():
                # Writing the bytecode takes as long as the walk, and a split reads it later.
                code = contents.read_code()
                if any(name in code for name in names):
                    contents.function.walk(collect_sharded_op)
            if misnamed:
                raise HespasError(
                    f"Shardy knows no attribute {MISNAMED_SHARDING}",
                    op=misnamed[0],
                    remedy=f"name it {SHARDING_ATTRS[0]}",
                )
            self._sharded_ops = sharded_ops
        return self._sharded_ops

    def forget_sharded_ops(self) -> None:
        """Forget the sharded ops, and the bytecode with their shardings, which are removed."""
        if self._sharded_ops:
            self._sharded_ops = []
            for contents in self.functions.values():
                contents.code = b""

    def select_ops_by_dialect(self, *dialects: str) -> list[ir.Operation]:
        prefixes = tuple(f"{dialect}." for dialect in dialects)
        return [
            op
            for contents in self.functions.values()
            for name, op in contents.ops
            if name.startswith(prefixes)
        ]


def collect_census(module: ir.Module) -> ModuleCensus:
    """Search the functions that the entry function reaches, and erase other private functions.

    XLA-optimised modules contain a copy of each fusion and reducer body as a private function:
    three quarters of the text of these modules is dead. MLIR's symbol-dce refuses modules with an
    unregistered op that has a body, because this might be a symbol table.
    """
    table = collect_functions(module)
    main = find_entry_function(module, table)
    search = _RelevantOpSearch.from_module(module)
    reached = _collect_reached_functions(table, [get_symbol_name(main)], search)
    if len(reached) < len(table):  # the bodies of fusions are searched only then, which takes long
        reached |= _collect_reached_functions(table, list_references_in_fusions(reached), search)
    others = [name for name in table.keys() - reached.keys() if not has_private_symbol(table[name])]
    used_by_others = _collect_reached_functions(table, others, search)
    uncalled: dict[str, FunctionContents] = {}
    for name, function in table.items():
        if name in reached:
            continue
        if name in used_by_others:
            uncalled[name] = used_by_others[name]
        else:
            function.erase()
    return ModuleCensus(main, reached, uncalled)


def list_references_in_fusions(functions: Mapping[str, FunctionContents]) -> list[str]:
    """List the functions that ops in fusions refer to, as another pass may have left them.

    The census has no other references of a fusion.
    """
    return [
        callee
        for contents in functions.values()
        if contents.select_ops_by_name(FUSION)
        for op in find_ops(contents.function, (*CALLEE, *CUSTOM_CALLS, REFERENCE))
        if is_in_fusion(op)
        for callee in find_callees(op.name, op)
    ]


def is_in_fusion(op: ir.Operation) -> bool:
    """Return whether an op is in the body of a fusion."""
    holder = op.parent
    while holder is not None and holder.name != FUSION:
        holder = holder.parent
    return holder is not None


def _collect_reached_functions(
    table: Mapping[str, ir.Operation], names: Sequence[str], search: _RelevantOpSearch
) -> dict[str, FunctionContents]:
    """Collect the contents of functions and of all those that they refer to."""
    reached: dict[str, FunctionContents] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in reached or name not in table:
            continue
        reached[name] = contents = search.collect_contents(table[name])
        pending += [callee for callee, _ in contents.callees]
    return reached


@record(slots=True)
class _RelevantOpSearch:
    """Searches functions for the ops that some step of ``prepare`` handles.

    Attributes:
        names: The names of the relevant ops of the module, if MLIR can find them: it has counted
            the ops by name, and none is a fusion, in which few ops are relevant.
        names_in_fusions: The names of those that are in the module.
    """

    names: list[str] | None
    names_in_fusions: Sequence[str] = ()

    @classmethod
    def from_module(cls, module: ir.Module) -> _RelevantOpSearch:
        counts = count_op_names(module)
        if counts is None or FUSION in counts:
            names = counts if counts is not None else _collect_op_names(module)
            return cls(None, [name for name in names if _is_relevant_in_fusion(name)])
        return cls([name for name in counts if _is_relevant(name)])

    def collect_contents(self, function: ir.Operation) -> FunctionContents:
        """Collect the contents of a function."""
        ops = None if self.names is None else find_ops(function, self.names)
        if ops is None or any(op.parent != function for op in ops):
            contents = _walk_contents(function)
            in_fusions = filter(is_in_fusion, find_ops(function, self.names_in_fusions))
            contents.ops += [(op.name, op) for op in in_fusions]
        else:
            contents = FunctionContents(function, [(op.name, op) for op in ops if op != function])
        for name, op in contents.ops:
            contents.callees += [(callee, op) for callee in find_callees(name, op)]
        return contents


def _is_relevant(name: str) -> bool:
    return name in RELEVANT_OPS or not name.startswith(PLAIN_DIALECTS)


def _collect_op_names(module: ir.Module) -> set[str]:
    """Collect the names of all ops, where MLIR cannot count them."""
    names: set[str] = set()

    def add_name(op: ir.Operation) -> ir.WalkResult:
        names.add(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(add_name)
    return names


def _is_relevant_in_fusion(name: str) -> bool:
    """Return whether ``prepare`` writes on such ops in fusions, or removes what they refer to."""
    return name in LOOPS or name in BRANCHES or name.startswith("sdy.")


def _walk_contents(function: ir.Operation) -> FunctionContents:
    """Collect the relevant ops of a function, those in the regions of an op after it."""
    contents = FunctionContents(function)
    ops, is_relevant = contents.ops, dict.fromkeys(RELEVANT_OPS, True)

    def collect_relevant_op(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        keep = is_relevant.get(name)
        if keep is None:
            keep = is_relevant[name] = _is_relevant(name)
        if keep:
            ops.append((name, op))
        # A fusion is one kernel: it contains neither collectives nor loops around them.
        return ir.WalkResult.SKIP if name == FUSION else ir.WalkResult.ADVANCE

    function.walk(collect_relevant_op, ir.WalkOrder.PRE_ORDER)
    return contents


def find_callees(name: str, op: ir.Operation) -> Iterator[str]:
    """Find the names of the functions that an op refers to."""
    if name in CALLEE:
        yield get_attribute(op, CALLEE[name]).value
    elif name in CUSTOM_CALLS or name == REFERENCE or not name.startswith(PLAIN_DIALECTS):
        for key in op.attributes:
            yield from _find_symbols(find_attribute(op, key))


def _find_symbols(attr: ir.Attribute | None) -> Iterator[str]:
    """Find the names of symbols in an attribute, and in the lists that it consists of."""
    if isinstance(attr, ir.FlatSymbolRefAttr):
        yield attr.value
    elif isinstance(attr, ir.ArrayAttr):
        for element in attr:
            yield from _find_symbols(element)
    elif isinstance(attr, ir.DictAttr):
        for _, element in list_dictionary_entries(attr):
            yield from _find_symbols(element)
