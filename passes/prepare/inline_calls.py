"""Inlining of calls that communicate, occur once or differ, of composites and async functions.

JAX slices the arrays that a scan carries in functions, which it calls several times for arrays of
equal shapes. Where a program keeps values in the memory of the host, these functions are inlined,
too: only a slice that stands beside its placement is known to be copied alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from hespas.dialects.attrs import WAIT, CommAttr, Cost, RegionAttr, TargetAttr
from hespas.dialects.mlir import (
    create_before,
    drop_attributes,
    find_attribute,
    get_attribute,
    get_symbol_name,
    ir,
    list_dictionary_entries,
    replace_results,
)
from hespas.dialects.op_bodies import splice_block_before
from hespas.dialects.op_kinds import (
    ASYNC_DONES,
    ASYNC_STARTS,
    ASYNC_UPDATES,
    BRANCHES,
    CALLEE,
    COMPOSITES,
    LOOPS,
    contains_op,
    is_collective,
)
from hespas.passes.base import PassRun, option
from hespas.passes.prepare.census import ModuleCensus, collect_census, list_references_in_fusions
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.replace_host_placements import SLICES, is_placement, list_placements
from hespas.passes.prepare.scalars import Number, ScalarEvaluator, build_scalar_evaluator
from hespas.passes.prepare.write_trip_counts import find_trip_count
from hespas.support.errors import HespasError, format_op_place
from hespas.support.records import record

MAX_CALL_PATHS = 100  # choices of calls that are tried to determine how a loop or branch runs
ATTENTION_NAME = re.compile(r"attention|attn|sdpa|mha|flash", re.I)


@record(frozen=True)
class InlineCallsPass(PrepareStep):
    """Inline calls of functions that communicate, are called once, or run differently by the call.

    Where a program places values in another memory, functions that do it, or slice, are inlined.

    A function runs differently if its calls pass other bounds of a loop, or selectors of a
    branch, which may be in a function that it calls. The other functions remain: each is a part
    of the program that repeats. Of a region function, calls that differ get copies; one that
    communicates, as another pass may have left it, is no region. Callees are processed before
    their callers, so that one traversal of the call graph is enough. Composites and the
    computations of asynchronous ops are inlined, too.
    """

    name: ClassVar[str] = "inline-calls"

    single: bool = option(
        True, "inline functions that are called once; false: another tool may have written costs"
    )

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        target = TargetAttr.read_from_op(module.operation)
        changed, copied = self._inline_calls(view.census, target, run)
        while copied:  # the copies of a region function may call others that vary
            _, copied = self._inline_calls(collect_census(module), target, run)
        return changed

    def _inline_calls(
        self, census: ModuleCensus, target: TargetAttr | None, run: PassRun
    ) -> tuple[bool, bool]:
        """Inline calls in all functions once.

        Returns:
            Whether anything changed, and whether a region function has been copied.
        """
        changed = copied = False
        uses = _count_calls(census)
        left = dict(uses)
        order = order_callees_first(census)
        communicates = _find_communicating_functions(census, order)
        for name in communicates:
            drop_attributes(census.functions[name].function, RegionAttr.NAME)
        scalars = build_scalar_evaluator(census)
        varying = _find_varying_functions(census, scalars)
        inlined = communicates | varying | _find_moving_functions(census)
        for name in sorted(varying):
            if RegionAttr.NAME in census.functions[name].function.attributes:
                changed = copied = _copy_region_function(name, census, scalars) or copied
        for name in order:
            contents = census.functions[name]
            for callee, call in contents.callees:
                body = census.functions.get(callee)
                if body is None:
                    continue
                kind = call.name
                if callee in communicates and kind not in CALLEE:
                    raise HespasError(
                        f"@{callee} communicates, and '{kind}', which names it, is estimated as "
                        "one op",
                        op=call,
                        remedy=f"call @{callee} with func.call",
                    )
                if RegionAttr.NAME in body.function.attributes:
                    continue  # a region function of a module that is already split
                is_single = uses[callee] == 1 and self.single
                should_inline = callee in inlined or is_single or kind != "func.call"
                if (
                    kind not in CALLEE
                    or not should_inline
                    or len(body.function.regions[0].blocks) != 1
                ):
                    continue
                stated = Cost.find_stated(call, target)
                if stated is not None:
                    run.warn(
                        f"{format_op_place(call, run.input_name)} is inlined: the cost that "
                        f"'{stated.estimator}' states for it does not count"
                    )
                left[callee] -= 1
                inline_call(call, body.function, last=not left[callee])
                changed = True
            for start in contents.select_ops_by_name("stablehlo.async_start"):
                _replace_with_block(start, start.regions[0].blocks[0])
                changed = True
        return changed, copied


def warn_of_unfused_composites(census: ModuleCensus, run: PassRun) -> None:
    """Warn of composites of attention, whose bodies are estimated op by op.

    A composite stands for a kernel that a library has for it, and libraries of attention keep no
    scores in memory.
    """
    names = (get_attribute(op, "name").value for op in census.select_ops_by_name(*COMPOSITES))
    counts = Counter(name for name in names if ATTENTION_NAME.search(name))
    for name, count in counts.items():
        run.warn(
            f"the composite '{name}' ({count} times) is estimated by the ops of its decomposition: "
            "as one kernel of a library it would take less time and memory"
        )


def inline_call(call: ir.Operation, function: ir.Operation, last: bool) -> None:
    """Replace a call by the function's body, or by a copy of it unless this is the last call."""
    source = function if last else function.clone().operation
    _replace_with_block(call, source.regions[0].blocks[0])
    if last:
        function.erase()


def _replace_with_block(op: ir.Operation, block: ir.Block) -> None:
    """Replace ``op`` by the ops of a block, and resolve the ends of an async pair."""
    moved, values = splice_block_before(op, op.operands, block)
    if op.name in ASYNC_STARTS:
        collectives = [inner for inner in moved if is_collective(inner)]
        for collective in collectives:
            _mark_async(collective)
        _replace_async_ends(op, op.results[0], values, wait=bool(collectives))
        op.erase()
    else:
        replace_results(op, values)


def _mark_async(collective: ir.Operation) -> None:
    """Write in ``hespas.comm`` that a collective is asynchronous; its other fields come later."""
    old = find_attribute(collective, CommAttr.NAME)
    entries = list_dictionary_entries(old) if isinstance(old, ir.DictAttr) else []
    fields = {name: value for name, value in entries if value is not None}
    fields["is_async"] = ir.BoolAttr.get(True, collective.context)
    collective.attributes[CommAttr.NAME] = ir.DictAttr.get(fields, collective.context)


def create_wait(values: Sequence[ir.Value], place: ir.Operation) -> ir.Operation:
    """Create the barrier before ``place`` that awaits the results of an asynchronous collective."""
    kinds = [value.type for value in values]
    mark = {WAIT: ir.BoolAttr.get(True, place.context)}
    return create_before(place, "stablehlo.optimization_barrier", values, kinds, mark)


def _replace_async_ends(
    start: ir.Operation, bundle: ir.Value, values: list[ir.Value], wait: bool
) -> None:
    """Replace the async_done ops of ``bundle`` by ``values``, with ``wait`` behind a barrier.

    The barrier is marked as the place where the program waits for the collective.
    """
    for use in list(bundle.uses):
        op = use.owner.operation
        if op.name in ASYNC_UPDATES:
            _replace_async_ends(start, op.results[0], values, wait)
            op.erase()
        elif op.name in ASYNC_DONES:
            replace_results(op, create_wait(values, op).results if wait else values)
        else:
            raise HespasError(
                f"the async op that starts here is passed out of its block by '{op.name}'",
                op=start,
                remedy="compile without collective pipelining (--xla_gpu_enable_pipelined_*=false)",
            )


def _copy_region_function(name: str, census: ModuleCensus, scalars: ScalarEvaluator) -> bool:
    """Give calls of a region function that pass different scalars a copy each.

    Regions stay functions, and equal calls share one. Returns whether there is a copy.
    """
    if any(call.name != "func.call" for call in scalars.callers[name]):
        return False
    function = census.functions[name].function
    assert function.parent is not None
    symbols = ir.SymbolTable(function.parent)
    owners: dict[tuple[Number | None, ...], ir.Attribute] = {}
    for call in scalars.callers[name]:
        key = tuple(scalars.find_scalar_value(operand) for operand in call.operands)
        if key not in owners:
            owner = function
            if owners:
                owner = function.clone(ip=ir.InsertionPoint(function)).operation
                owner.move_after(function)
                symbols.insert(owner)  # MLIR gives it a name of its own
            owners[key] = ir.FlatSymbolRefAttr.get(get_symbol_name(owner), call.context)
        call.attributes["callee"] = owners[key]
    return len(owners) > 1


def _find_varying_functions(census: ModuleCensus, scalars: ScalarEvaluator) -> set[str]:
    """Find functions whose calls determine a trip count or a branch, but not all alike.

    The loop or branch may be in a function that they call.
    """
    varying: set[str] = set()
    for contents in census.functions.values():
        if contents.function != census.entry:
            for op in contents.select_ops_by_name(*LOOPS, *BRANCHES):
                if not _is_determined(op, scalars):
                    tries = iter(range(MAX_CALL_PATHS))
                    varying |= _find_deciding_functions(op, scalars, tries) or set()
    return varying


def _find_deciding_functions(
    op: ir.Operation, scalars: ScalarEvaluator, tries: Iterator[int]
) -> set[str] | None:
    """Find functions each of which has a call that helps to determine how ``op`` runs.

    Args:
        op: A loop or branch.
        scalars: Evaluates scalars under the calls that are chosen so far.
        tries: Ends the search, because the choices of calls multiply from level to level.

    Returns:
        Their names, or None if no choice of calls determines it.
    """
    evaluator = ScalarEvaluator(scalars.functions, scalars.callers)
    if _is_determined(op, evaluator):
        return set()
    for name in sorted(evaluator.disagreeing):
        for call, _ in zip(scalars.callers[name], tries, strict=False):
            alone = scalars.restrict_to_call(name, call)
            others = _find_deciding_functions(op, alone, tries)
            if others is not None:
                return {name, *others}
    return None


def _is_determined(op: ir.Operation, scalars: ScalarEvaluator) -> bool:
    """Return whether the IR determines the trip count of a loop, or the branch that runs."""
    if op.name in LOOPS:
        return find_trip_count(op, scalars) is not None
    return scalars.find_selected_branch(op) is not None


def _count_calls(census: ModuleCensus) -> dict[str, int]:
    uses: dict[str, int] = {}
    for contents in [*census.functions.values(), *census.uncalled.values()]:
        for callee, _ in contents.callees:
            uses[callee] = uses.get(callee, 0) + 1
    if uses:  # else nothing is called: fusions, which seldom call functions, are not searched
        for callee in list_references_in_fusions(census.functions):
            uses[callee] = uses.get(callee, 0) + 1
    return uses


def _find_communicating_functions(census: ModuleCensus, order: Sequence[str]) -> set[str]:
    """Find functions that communicate, also in functions that they call.

    Args:
        census: The census of the module.
        order: The names of its functions, callees first.
    """
    communicating: set[str] = set()
    for name in order:
        contents = census.functions[name]
        if contents.communicates() or any(each in communicating for each, _ in contents.callees):
            communicating.add(name)
    return communicating


def _find_moving_functions(census: ModuleCensus) -> set[str]:
    """Find functions that place values in another memory, or slice what may be there."""
    if not list_placements(census):
        return set()
    return {
        name
        for name, contents in census.functions.items()
        if contents.function != census.entry
        and contains_op(contents.function, lambda op: op.name in SLICES or is_placement(op))
    }


def order_callees_first(census: ModuleCensus) -> list[str]:
    """Sort function names so that callees come before callers; raises HespasError for recursion."""
    order: list[str] = []
    state: dict[str, str] = {}
    stack = [(name, False) for name in reversed(census.functions)]
    while stack:
        name, done = stack.pop()
        if done:
            state[name] = "done"
            order.append(name)
        elif name not in state:
            state[name] = "open"
            stack.append((name, True))
            for callee, call in census.functions[name].callees:
                if state.get(callee) == "open":
                    raise HespasError(f"the function @{callee} calls itself", op=call)
                if callee in census.functions and callee not in state:
                    stack.append((callee, False))
    return order
