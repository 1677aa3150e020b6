"""Facts follow their ops: whatever a pass edits, traces are those of a fresh annotation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas import frontends
from hespas.chakra.trace_reader import TraceNode, read_trace_nodes
from hespas.dialects.attrs import TRIPS, CommAttr, Cost, MemoryAttr, OnChipAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir, make_context, to_i64_attr
from hespas.passes.base import Pass, PassRun
from hespas.passes.memory.memory_annotate import compute_memory_use
from hespas.passes.pipeline import PipelineStep, parse_pipeline, run_pipeline
from hespas.passes.prepare.annotate_collectives import AnnotateCollectivesPass

ANNOTATE = "roofline-annotate{node=A100_SXM_40GB}"
X = "tensor<64x64xf32>"
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"


def all_reduce(result: str, operand: str, groups: str) -> str:
    rows = groups.count("[") - 1
    width = (groups.count(",") + 1) // rows
    return f"""%{result} = "stablehlo.all_reduce"(%{operand}) <{{replica_groups = dense<{groups}> :
      tensor<{rows}x{width}xi64>, {CHANNEL}}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : ({X}) -> {X}"""


PAIRS, ALL = "[[0, 1], [2, 3]]", "[[0, 1, 2, 3]]"
PROGRAM = f"""module attributes {{mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: {X}) -> {X} {{
    %0 = stablehlo.tanh %x : {X}
    %1 = stablehlo.add %0, %x : {X}
    {all_reduce("2", "1", PAIRS)}
    %3 = stablehlo.tanh %2 : {X}
    %4 = stablehlo.add %3, %2 : {X}
    {all_reduce("5", "4", ALL)}
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %bound = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %6:2 = stablehlo.while(%i = %zero, %y = %5) : tensor<i32>, {X} cond {{
      %lt = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }} do {{
      %a = stablehlo.sine %y : {X}
      {all_reduce("b", "a", PAIRS)}
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b : tensor<i32>, {X}
    }}
    %7 = stablehlo.negate %6#1 : {X}
    return %7 : {X}
  }}
}}"""
Edit = Callable[[ir.Module], None]


def read(text: str = PROGRAM) -> ir.Module:
    return frontends.parse_module(text.encode(), "in.mlir", make_context())


def store(module: ir.Module) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))


def iterate_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in list(block.operations):
                yield view.operation
                yield from iterate_ops(view.operation)


def find_op(module: ir.Module, name: str, number: int = 0) -> ir.Operation:
    return [op for op in iterate_ops(module.operation) if op.name == name][number]


@dataclass(frozen=True)
class EditPass(Pass):
    """Apply an edit."""

    name: ClassVar[str] = "guest-edit"
    edit: Edit = lambda module: None

    def apply(self, module: ir.Module, run: PassRun) -> None:
        self.edit(module)


def read_trace(folder: Path) -> list[list[TraceNode]]:
    """Everything in the traces of the first two devices but positions in files, which move."""
    return [
        [node._replace(attrs={k: v for k, v in node.attrs.items() if k != "location"})
         for node in read_trace_nodes(path)]
        for path in (folder / "dev.0.et", folder / "dev.3.et")
    ]  # fmt: skip


def emit(
    module: ir.Module, steps: list[PipelineStep], folder: Path
) -> tuple[list[list[TraceNode]], list[str]]:
    notes: list[str] = []
    emission = parse_pipeline(f"emit-chakra{{output={folder} stats=false}}")
    run_pipeline(module, [*steps, *emission], PassRun("in.mlir", note=notes.append))
    return read_trace(folder), notes


def check_edit(edit: Edit, split: str, folder: Path) -> tuple[list[list[TraceNode]], list[str]]:
    """Check that an edit gives one trace in one run, in several runs, and annotated afresh."""
    before = parse_pipeline(f"{split},{ANNOTATE}")
    one, notes = emit(read(), [*before, EditPass(edit)], folder / "one")
    module = read()
    run_pipeline(module, before, PassRun(note=lambda text: None))
    module = read(store(module))
    edit(module)
    text = store(module)
    several, several_notes = emit(read(text), [], folder / "several")
    fresh, _ = emit(read(text), parse_pipeline(f"strip-costs,{ANNOTATE}"), folder / "fresh")
    again, _ = emit(read(text), parse_pipeline("prepare"), folder / "again")
    assert one == several == fresh == again
    assert bool(notes) == bool(several_notes)
    return one, notes


def to_bf16(op: ir.Operation) -> None:
    """Compute an op on bfloat16, as a tool that compresses collectives does."""
    kind = ir.Type.parse("tensor<64x64xbf16>", op.context)
    scalar = ir.Type.parse("tensor<bf16>", op.context)
    old = op.results[0].type

    def convert(value: ir.Value, type_: ir.Type) -> ir.Value:
        return ir.Operation.create("stablehlo.convert", results=[type_], operands=[value]).results[
            0
        ]

    with ir.InsertionPoint(op), op.location:
        operands = [convert(value, kind) for value in op.operands]
        new = op.clone().operation
        for number, value in enumerate(operands):
            new.operands[number] = value
        new.results[0].set_type(kind)
        for region in new.regions:
            for argument in region.blocks[0].arguments:
                argument.set_type(scalar)
            region.blocks[0].operations[0].operation.results[0].set_type(scalar)
        result = convert(new.results[0], old)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def set_groups(op: ir.Operation, groups: str) -> None:
    rows = groups.count("[") - 1
    width = (groups.count(",") + 1) // rows
    text = f"dense<{groups}> : tensor<{rows}x{width}xi64>"
    op.attributes["replica_groups"] = ir.Attribute.parse(text, op.context)


def set_bound(module: ir.Module, bound: int) -> None:
    value = ir.Attribute.parse(f"dense<{bound}> : tensor<i32>", module.context)
    loop = find_op(module, "stablehlo.while")
    compare = next(op for op in iterate_ops(loop) if op.name == "stablehlo.compare")
    compare.operands[1].owner.attributes["value"] = value


def list_comm_sizes(trace: list[list[TraceNode]]) -> list[int]:
    return [node.get_attr_value("comm_size") for node in trace[0] if "comm_size" in node.attrs]


SPLITS = ["split-linear", "split-individual{merge}", "split-individual"]


@pytest.mark.parametrize("split", SPLITS)
def test_a_collective_of_another_type_has_its_bytes(split: str, tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        to_bf16(find_op(module, "stablehlo.all_reduce"))

    trace, _ = check_edit(edit, split, tmp_path)
    assert list_comm_sizes(trace) == [8192, 16384, 16384, 16384, 16384]


def test_sizes_that_an_edited_collective_states_are_written_again(tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        collective = find_op(module, "stablehlo.all_reduce")
        comm = CommAttr.read_from_op(collective)
        assert comm is not None
        collective.attributes[CommAttr.NAME] = comm.to_dictionary_attr(module.context)
        to_bf16(collective)

    trace, notes = check_edit(edit, "split-linear", tmp_path)
    assert list_comm_sizes(trace) == [8192, 16384, 16384, 16384, 16384]
    assert "stablehlo.all_reduce (in.mlir:5:10) changed after prepare: hespas.comm" in notes[0]


def test_a_collective_between_other_devices_has_their_communicator(tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        set_groups(find_op(module, "stablehlo.all_reduce"), "[[0, 2], [1, 3]]")

    trace, _ = check_edit(edit, "split-linear", tmp_path)
    names = [node.get_attr_value("pg_name") for node in trace[0] if "pg_name" in node.attrs]
    assert names == ["1", "3", "4", "4", "4"]
    assert '"1":[0,2]' in (tmp_path / "one" / "comm_group.json").read_text()


@pytest.mark.parametrize("groups", ["", "[[0, 1, 2, 3, 4, 5, 6, 7]]"])
def test_a_program_for_more_devices_has_their_traces(groups: str, tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        count = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, module.context), 8)
        module.operation.attributes["mhlo.num_partitions"] = count
        if groups:
            set_groups(find_op(module, "stablehlo.all_reduce"), groups)

    _, notes = check_edit(edit, "split-linear", tmp_path)
    for mode in ("one", "several", "fresh", "again"):
        assert len([*(tmp_path / mode).glob("dev.*.et")]) == 8
    assert "hespas.target is brought up to date: 4 to 8 devices" in notes


@pytest.mark.parametrize(("pipeline", "prepared"), [("fuse", 1), ("prepare,cse,fuse", 2)])
def test_a_module_is_prepared_again_only_if_a_pass_may_have_changed_it(
    pipeline: str, prepared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    rewrite = AnnotateCollectivesPass.rewrite

    def count_run(step: AnnotateCollectivesPass, *arguments: Any) -> bool:
        runs.append(step.name)
        return rewrite(step, *arguments)

    monkeypatch.setattr(AnnotateCollectivesPass, "rewrite", count_run)
    run_pipeline(ir.Module.parse(PROGRAM, make_context()), pipeline)
    assert len(runs) == prepared


def test_a_module_that_a_pass_has_stripped_is_prepared_again(tmp_path: Path) -> None:
    def strip(module: ir.Module) -> None:
        del module.operation.attributes[TargetAttr.NAME]

    steps = parse_pipeline(f"prepare,split-linear,{ANNOTATE}")
    expected, _ = emit(read(), steps, tmp_path / "expected")
    stripped, _ = emit(read(), [*steps[:2], EditPass(strip), steps[2]], tmp_path / "stripped")
    assert stripped == expected


@pytest.mark.parametrize("start", ["", "prepare,fuse,"])
def test_a_function_that_only_a_fusion_calls_is_kept(start: str, tmp_path: Path) -> None:
    def outline(module: ir.Module) -> None:
        sine = find_op(module, "stablehlo.sine")
        text = f"func.func private @sine(%x: {X}) -> {X} {{ return %x : {X} }}"
        function = ir.Operation.parse(text, context=module.context).operation
        module.body.append(function)
        block = function.regions[0].blocks[0]
        with ir.InsertionPoint(block.operations[0]):
            inner = sine.clone().operation
        inner.operands[0] = block.arguments[0]
        block.operations[1].operands[0] = inner.results[0]
        with ir.InsertionPoint(sine), sine.location:
            callee = ir.FlatSymbolRefAttr.get("sine", module.context)
            call = ir.Operation.create(
                "func.call", results=[sine.results[0].type], operands=list(sine.operands),
                attributes={"callee": callee},
            )  # fmt: skip
        sine.results[0].replace_all_uses_with(call.results[0])
        sine.erase()

    fused = "%a = stablehlo.sine %y : " + X
    text = PROGRAM.replace(
        fused,
        f"""%a = "mhlo.fusion"(%y) <{{fusion_kind = #mhlo<fusion_kind kLoop>}}> ({{
        ^bb0(%f: {X}):
          %g = stablehlo.sine %f : {X}
          mhlo.return %g : {X}
        }}) : ({X}) -> {X}""",
    )
    steps = parse_pipeline(f"{start}split-linear,{ANNOTATE}")
    plain, _ = emit(read(text), steps, tmp_path / "plain")
    outlined, _ = emit(read(text), [EditPass(outline), *steps], tmp_path / "outlined")
    assert outlined == plain


def test_a_loop_with_another_bound_has_its_trips(tmp_path: Path) -> None:
    trace, notes = check_edit(lambda module: set_bound(module, 5), "split-linear", tmp_path)
    assert len(list_comm_sizes(trace)) == 2 + 5
    assert notes[0] == (
        "hespas.trips is brought up to date: stablehlo.while (in.mlir:22:12): 3 to 5"
    )


@pytest.mark.parametrize("split", SPLITS)
def test_trips_that_somebody_states_win_and_the_difference_is_reported(
    split: str, tmp_path: Path
) -> None:
    def edit(module: ir.Module) -> None:
        loop = find_op(module, "stablehlo.while")
        loop.attributes[TRIPS] = to_i64_attr(2, module.context)

    trace, notes = check_edit(edit, split, tmp_path)
    assert len(list_comm_sizes(trace)) == 2 + 2
    assert "the loop runs 3 times, and hespas.trips states 2, which is used" in notes[0]
    text = PROGRAM.replace(
        f"tensor<i32>, {X} cond", f"tensor<i32>, {X} attributes {{{TRIPS} = 2 : i64}} cond"
    )
    stated, notes = emit(read(text), parse_pipeline(f"{split},{ANNOTATE}"), tmp_path / "stated")
    assert stated == trace and "hespas.trips states 2, which is used" in notes[0]
    module = read(text)
    run_pipeline(module, "prepare", PassRun(note=lambda text: None))
    assert "trips_found" not in str(module) and 'trips_note = "trip count from' in str(module)
    set_bound(module, 2)
    run_pipeline(module, "prepare", PassRun(note=lambda text: None))
    assert "trips_found = 2" in str(module) and "trips_note" not in str(module)


def test_trips_of_data_are_assumed_with_a_warning(tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        loop = find_op(module, "stablehlo.while")
        compare = next(op for op in iterate_ops(loop) if op.name == "stablehlo.compare")
        with ir.InsertionPoint(loop), loop.location:
            state = ir.Operation.create(
                "stablehlo.custom_call", results=[loop.operands[0].type], operands=[],
                attributes={"call_target_name": ir.StringAttr.get("read_counter", module.context),
                            "hespas.kernel_cost": ir.Attribute.parse(
                                "{flops = 0 : i64, bytes = 4 : i64}", module.context)},
            )  # fmt: skip
        compare.operands[1] = state.results[0]

    trace, notes = check_edit(edit, "split-linear", tmp_path)
    assert len(list_comm_sizes(trace)) == 2 + 1
    assert any("depends on data: 1 is assumed" in note for note in notes)


def test_a_new_collective_and_a_copied_one_are_in_the_trace(tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        old = find_op(module, "stablehlo.all_reduce")
        with ir.InsertionPoint(old):
            copy, bare = old.clone().operation, old.clone().operation
        del bare.attributes[CommAttr.NAME]
        set_groups(bare, ALL)
        old.operands[0] = bare.results[0]
        bare.operands[0] = copy.results[0]

    trace, notes = check_edit(edit, "split-linear", tmp_path)
    assert list_comm_sizes(trace) == [16384] * 7
    assert "changed after prepare: hespas.comm is written again" in notes[0]


def test_what_a_conversion_copies_to_another_op_is_removed(tmp_path: Path) -> None:
    def edit(module: ir.Module) -> None:
        old = find_op(module, "stablehlo.all_reduce")
        with ir.InsertionPoint(old), old.location:
            new = ir.Operation.create("stablehlo.negate", results=[old.results[0].type],
                                      operands=list(old.operands))  # fmt: skip
        for name in (CommAttr.NAME,):
            new.attributes[name] = old.attributes[name]
        loop = find_op(module, "stablehlo.while")
        new.attributes[TRIPS] = loop.attributes[TRIPS]
        old.results[0].replace_all_uses_with(new.results[0])
        old.erase()
        cost = find_op(module, "stablehlo.negate").attributes
        collective = find_op(module, "stablehlo.all_reduce").attributes
        collective[Cost.NAME] = find_op(module, "func.call").attributes[Cost.NAME]
        assert CommAttr.NAME in cost

    trace, _ = check_edit(edit, "split-linear", tmp_path)
    assert list_comm_sizes(trace) == [16384] * 4


@pytest.mark.parametrize("number", [0, 1])
def test_a_sum_that_a_conversion_copies_to_an_op_is_no_cost_of_it(
    number: int, tmp_path: Path
) -> None:
    """The sum of a loop or of a call is on a plain op, and on a constant, which has no cost."""

    def edit(module: ir.Module) -> None:
        holder = find_op(module, "stablehlo.while" if number else "func.call")
        for name in ("stablehlo.negate", "stablehlo.constant"):
            find_op(module, name).attributes[Cost.NAME] = holder.attributes[Cost.NAME]

    _, notes = check_edit(edit, "split-linear", tmp_path)
    assert "estimated again by roofline-annotate" in notes[0]


def test_the_sum_of_a_body_without_costs_is_no_cost_of_it(tmp_path: Path) -> None:
    """All that ran in a loop and in a called function is replaced by ops without attributes."""

    def edit(module: ir.Module) -> None:
        for op in [*iterate_ops(module.operation)]:
            if op.name in ("stablehlo.sine", "stablehlo.tanh", "stablehlo.add"):
                with ir.InsertionPoint(op), op.location:
                    new = ir.Operation.create("stablehlo.add", operands=[op.operands[0]] * 2,
                                              results=[op.results[0].type])  # fmt: skip
                op.results[0].replace_all_uses_with(new.results[0])
                op.erase()
            elif Cost.NAME in op.attributes and op.name == "stablehlo.compare":
                del op.attributes[Cost.NAME]

    text = PROGRAM.replace(all_reduce("b", "a", PAIRS), f"%b = stablehlo.tanh %a : {X}")
    assert text != PROGRAM
    module = read(text)
    run_pipeline(module, f"split-linear,{ANNOTATE}", PassRun(note=lambda text: None))
    edit(module)
    module = read(store(module))
    fresh, _ = emit(
        read(store(module)), parse_pipeline(f"strip-costs,{ANNOTATE}"), tmp_path / "fresh"
    )
    assert emit(module, [], tmp_path / "edited")[0] == fresh


def test_a_function_from_a_module_for_another_node_is_estimated_again(tmp_path: Path) -> None:
    other = read()
    run_pipeline(
        other, "split-linear,roofline-annotate{node=H100_80GB}", PassRun(note=lambda text: None)
    )
    name = list(collect_functions(other))[-1]
    text = str(collect_functions(other)[name])

    def edit(module: ir.Module) -> None:
        old = collect_functions(module)[name]
        new = ir.Operation.parse(text, context=module.context).operation
        module.body.append(new)
        new.move_before(old)
        old.erase()

    _, notes = check_edit(edit, "split-linear", tmp_path)
    assert any(f"@{name}" in note and "had costs of another annotation" in note for note in notes)


def test_prepare_keeps_what_costs_were_estimated_with() -> None:
    module = read()
    run_pipeline(module, f"split-linear,{ANNOTATE}", PassRun(note=lambda text: None))
    before = TargetAttr.read_from_op(module.operation)
    notes: list[str] = []
    run_pipeline(read(str(module)), "prepare", PassRun(note=notes.append))
    run_pipeline(module, "prepare", PassRun(note=notes.append))
    assert TargetAttr.read_from_op(module.operation) == before and notes == []


def test_costs_that_depend_on_the_number_of_devices_follow_it() -> None:
    text = f"func.func @main(%x: {X}) -> {X} {{ %0 = stablehlo.tanh %x : {X} return %0 : {X} }}"
    module = read(text)
    run_pipeline(
        module, "split-linear,calibrated-annotate{node=H100_80GB}", PassRun(note=lambda text: None)
    )
    notes: list[str] = []
    run_pipeline(module, "prepare{replicas=8},refresh-costs", PassRun("in.mlir", note=notes.append))
    target = TargetAttr.read_from_op(module.operation)
    assert target is not None and (target.devices, target.job_devices) == (8, 8)
    assert any("had costs of another annotation: estimated again by calibrated" in n for n in notes)


@pytest.mark.parametrize(
    ("split", "is_kept"), [("split-linear", True), ("split-individual{merge}", False)]
)
def test_memory_is_that_of_the_program(split: str, is_kept: bool) -> None:
    module = read()
    pipeline = f"memory-annotate,{split},{ANNOTATE}"
    notes: list[str] = []
    run_pipeline(module, pipeline, PassRun(note=lambda text: None))
    before = MemoryAttr.read_from_op(module.operation)
    module = read(str(module))
    run_pipeline(module, "refresh-costs", PassRun("in.mlir", note=notes.append))
    assert MemoryAttr.read_from_op(module.operation) == before is not None and notes == []
    tanh = find_op(module, "stablehlo.tanh")
    tanh.results[0].replace_all_uses_with(tanh.operands[0])
    tanh.erase()
    run_pipeline(module, "refresh-costs", PassRun("in.mlir", note=notes.append))
    after = MemoryAttr.read_from_op(module.operation)
    assert (after is not None) == is_kept and after != before
    assert "the program changed after memory-annotate: hespas.memory is " in notes[0]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("split", SPLITS)
def test_what_stays_on_the_chip_is_that_of_the_program(
    number: int, split: str, tmp_path: Path
) -> None:
    def edit(module: ir.Module) -> None:
        collective = find_op(module, "stablehlo.all_reduce", number)
        collective.results[0].replace_all_uses_with(collective.operands[0])
        collective.erase()

    split_and_estimate = parse_pipeline(f"{split},systolic-annotate{{node=TPUv4}}")
    fuse, keep = parse_pipeline("fuse,on-chip-annotate")
    steps = [fuse, keep, EditPass(edit), *split_and_estimate]
    edited, notes = emit(read(), steps, tmp_path / "edited")
    steps = [fuse, EditPass(edit), keep, *split_and_estimate]
    assert edited == emit(read(), steps, tmp_path / "fresh")[0]
    assert any("hespas.on_chip is computed again" in note for note in notes)
    module = read()
    run_pipeline(module, [fuse, keep, *split_and_estimate], PassRun(note=lambda text: None))
    before = store(module)
    notes.clear()
    run_pipeline(module, "refresh-costs", PassRun("in.mlir", note=notes.append))
    assert store(module) == before and notes == []
    edit(module)
    run_pipeline(module, "refresh-costs", PassRun("in.mlir", note=notes.append))
    change = "removed; run on-chip-annotate again" if "merge" in split else "computed again"
    assert any(f"hespas.on_chip is {change}" in note for note in notes)


@pytest.mark.parametrize("split", SPLITS)
def test_what_stays_on_the_chip_follows_a_collective_that_moves(split: str, tmp_path: Path) -> None:
    """The values have the same sizes before and after; only what reads which of them differs."""

    def edit(module: ir.Module) -> None:
        collective = find_op(module, "stablehlo.all_reduce")
        source, result = collective.operands[0], collective.results[0]
        reader = next(use.owner.operation for use in result.uses)
        result.replace_all_uses_with(source)
        collective.move_after(reader)
        reader.results[0].replace_all_uses_with(result)
        collective.operands[0] = reader.results[0]

    text = PROGRAM.replace(f"%4 = stablehlo.add %3, %2 : {X}", f"%4 = stablehlo.negate %3 : {X}")
    module = read(text)
    pipeline = f"on-chip-annotate,memory-annotate,{split},systolic-annotate{{node=TPUv4}}"
    run_pipeline(module, pipeline, PassRun(note=lambda text: None))
    edit(module)
    notes: list[str] = []
    run_pipeline(module, "refresh-costs", PassRun("in.mlir", note=notes.append))
    for name in (MemoryAttr.NAME, OnChipAttr.NAME):
        assert any(f"{name} is " in note for note in notes), notes


def test_a_text_without_locations_has_the_memory_of_its_program() -> None:
    """Only the names in locations tell that a value is made before the backward pass."""
    module = read(f"""func.func @main(%x: {X}) -> {X} {{
  %0 = stablehlo.tanh %x : {X} loc("jit(f)/jvp(f)/tanh")
  %1 = stablehlo.sine %x : {X} loc("jit(f)/jvp(f)/sin")
  %2 = stablehlo.multiply %0, %1 : {X} loc("jit(f)/transpose(jvp(f))/mul")
  return %2 : {X}
}}""")
    notes: list[str] = []
    pipeline = f"memory-annotate{{model-fusion=false}},split-linear,{ANNOTATE}"
    run_pipeline(module, pipeline, PassRun())
    before = MemoryAttr.read_from_op(module.operation)
    assert before is not None and before.activation_bytes
    module = read(str(module))
    run_pipeline(module, "refresh-costs", PassRun("in.mlir", note=notes.append))
    assert MemoryAttr.read_from_op(module.operation) == before and notes == []


def test_the_order_of_values_that_a_loop_reads_is_no_change_of_the_memory() -> None:
    """A split that merges regions reorders ops, as in the workload ``sort_topk``."""
    values = [
        "%x = stablehlo.tanh %a : tensor<8xf32>",
        "%y = stablehlo.negate %b : tensor<64xf32>",
    ]
    digests = set()
    for first, second in (values, reversed(values)):
        module = read(f"""
func.func @main(%a: tensor<8xf32>, %b: tensor<64xf32>) -> (tensor<8xf32>, tensor<64xf32>) {{
  {first}
  {second}
  %n = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %n, %u = %a, %v = %b) : tensor<i32>, tensor<8xf32>, tensor<64xf32>
   cond {{
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %u1 = stablehlo.multiply %u, %x : tensor<8xf32>
    %v1 = stablehlo.add %v, %y : tensor<64xf32>
    stablehlo.return %next, %u1, %v1 : tensor<i32>, tensor<8xf32>, tensor<64xf32>
  }}
  return %0#1, %0#2 : tensor<8xf32>, tensor<64xf32>
}}""")
        run_pipeline(module, "prepare", PassRun(note=lambda text: None))
        digests.add(compute_memory_use(module).digest)
    assert len(digests) == 1


# --- a random edit of a random op


def edit_randomly(module: ir.Module, kind: str, number: int, choice: int) -> None:
    """Edit the op with this number, if the edit is possible on it."""
    functions = collect_functions(module).values()
    ops = [op for function in functions for op in iterate_ops(function) if is_editable(op)]
    op = ops[number % len(ops)]
    if kind == "type" and op.name != "stablehlo.while" and str(op.results[0].type) == X:
        to_bf16(op)
    elif kind == "groups" and op.name == "stablehlo.all_reduce":
        set_groups(op, (PAIRS, ALL, "[[0, 2], [1, 3]]", "[[3, 0], [2, 1]]")[choice % 4])
    elif kind == "trips":
        if choice % 2:
            set_bound(module, choice)
        else:
            loop = find_op(module, "stablehlo.while")
            loop.attributes[TRIPS] = to_i64_attr(choice, module.context)
    elif kind == "order":
        move_up(op)
    elif kind == "attributes":
        edit_attributes(op, choice)
    elif kind == "clone":
        with ir.InsertionPoint(op):
            copy = op.clone().operation
        if passes_on_type(op):
            op.operands[0] = copy.results[0]
    elif kind == "deletion" and passes_on_type(op):
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def passes_on_type(op: ir.Operation) -> bool:
    """Whether the first operand could stand for the only result."""
    return (
        len(op.results) == 1 and len(op.operands) > 0 and op.operands[0].type == op.results[0].type
    )


def is_editable(op: ir.Operation) -> bool:
    """Whether an op is no terminator, constant, call, or part of the body of a collective."""
    skipped = ("func.call", "func.return", "stablehlo.return", "stablehlo.constant")
    return op.name not in skipped and op.parent.name != "stablehlo.all_reduce"


def move_up(op: ir.Operation) -> None:
    """Move an op before the one before it, if it does not read its results."""
    previous = None
    for view in op.block.operations if hasattr(op, "block") else ():
        if view.operation == op:
            break
        previous = view.operation
    if previous is not None:
        results = list(previous.results)
        inside = [value for inner in iterate_ops(op) for value in inner.operands]
        if not any(value in results for value in [*op.operands, *inside]):
            op.move_before(previous)


def edit_attributes(op: ir.Operation, choice: int) -> None:
    """Add an attribute of another tool, or remove an attribute of hespas."""
    own = sorted(name for name in op.attributes if name.startswith("hespas."))
    if choice % 2 or not own:
        op.attributes["guest.hot"] = ir.UnitAttr.get(op.context)
    else:
        del op.attributes[own[choice // 2 % len(own)]]


KINDS = ["type", "groups", "trips", "order", "attributes", "clone", "deletion"]


@pytest.mark.slow
@draw_examples(60)
@given(
    edits=st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 9)),
        min_size=1, max_size=3,
    ),
    split=st.sampled_from(SPLITS),
)  # fmt: skip
def test_any_edit_gives_the_trace_of_a_fresh_annotation(
    edits: list[tuple[str, int, int]], split: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def edit(module: ir.Module) -> None:
        for kind, number, choice in edits:
            edit_randomly(module, kind, number, choice)

    check_edit(edit, split, tmp_path_factory.mktemp("edit"))
