"""Costs that a user declares for kernels: their forms, and where they are accepted."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

import hespas
from hespas.configs.kernel_costs import KernelCost, parse_kernel_costs
from hespas.dialects.attrs import Cost, KernelCostAttr
from hespas.dialects.mlir import UNREGISTERED_VARIABLE, ir, make_context
from hespas.dialects.verify_attrs import verify_attributes
from hespas.estimators.rules import registry
from hespas.passes.base import PassRun
from hespas.passes.pipeline import run_pipeline
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas as cli
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.run_config import RunConfig

PROGRAM = """
func.func @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%x) {backend_config = "",
    mhlo.backend_config = {ir = "\\FF\\FE", name = "attention"}} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}
"""  # fmt: skip  # noqa: E501


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program as a file in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = Path("step.mlir")
    path.write_text(PROGRAM)
    return path


def test_items_and_files(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text('{"b": {"flops": 1e12, "bytes": 0}}')
    costs = parse_kernel_costs(f"a=b=2.5e3, 7;{file};")
    assert costs.constants == {"a=b": KernelCost(2500, 7), "b": KernelCost(10**12, 0)}
    assert parse_kernel_costs(costs.to_text()) == costs
    assert parse_kernel_costs(f"a=b=2.5e3:7;{file}") == costs, "without a comma"


@pytest.mark.parametrize(
    "text",
    [
        "a=1",
        "=1,2",
        "a=1,2,3",
        "a=x,2",
        "a=-1,2",
        "a=nan,2",
        "a=1,1e30",
        "a=1,2;a=1,2",
        "a=1:2,b=3:4",
        "a=1,2,b=3,4",
        "a=1e9:2e9, b=3:4",
    ],
)
def test_wrong_items(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not NAME=FLOPS:BYTES|'a' has two costs"):
        parse_kernel_costs(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": {"flops": 1}}', "'a' is not an object of flops and bytes"),
        ('{"a": {"flops": true, "bytes": 1}}', "'a' is not an object of flops and bytes"),
        ('{"a": "1,2"}', "'a' is not an object of flops and bytes"),
        ('{"a;b": {"flops": 1, "bytes": 1}}', "'a;b' is not the name of a kernel"),
        ("{", "is not valid JSON"),
    ],
)
def test_wrong_files(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "costs.json"
    file.write_text(content)
    with pytest.raises(HespasError, match=message) as error:
        parse_kernel_costs(str(file))
    assert error.value.where.startswith(str(file))


def test_run_and_sweep_count_the_same(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--node", "H100_80GB", "--estimator", "roofline"]
    argv = ["run", "--mlir", str(program), *options]
    assert run_tool_main(cli.main, argv) == 1
    assert "with kernel-cost=attention=FLOPS:BYTES" in capsys.readouterr().err
    argv += ["--kernel-cost", "attention=3e12,1e6", "--kernel-cost", "other=1,2", "--json"]
    assert run_tool_main(cli.main, argv) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["flops"] == 3 * 10**12
    assert "is named 'other'; the names in the module: __gpu" in captured.err

    Path("costs.json").write_text('{"attention": {"flops": 3e12, "bytes": 1e6}}')
    Path("sweep.yml").write_text(
        f"mlir: {program}\nnode: H100_80GB\nestimator: roofline\nkernel_cost:\n"
        '  - costs.json\n  - "attention=6e12,1e6"\n'
    )
    argv = ["sweep", "sweep.yml", "--json", "--jobs", "1", "--cache", "none"]
    assert run_tool_main(cli.main, argv) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["flops"] for row in rows] == [3 * 10**12, 6 * 10**12]


def test_the_digest_of_a_region_contains_the_cost() -> None:
    digests = set()
    for flops in (10, 20):
        module = hespas.read(PROGRAM)
        call = module.body.operations[0].regions[0].blocks[0].operations[0].operation
        KernelCostAttr(flops, 4).write_to_op(call)
        run_pipeline(module, "split-linear")
        digests.add(str(module).partition('digest = "')[2][:16])
    assert len(digests) == 2


def test_the_attribute_is_for_custom_calls() -> None:
    text = "func.func @main() attributes {hespas.kernel_cost = {flops = 1 : i64, bytes = 1 : i64}}"
    module = ir.Module.parse(f"{text} {{ return }}", make_context())
    with pytest.raises(HespasError, match=r"hespas\.kernel_cost is an attribute of: custom call"):
        verify_attributes(module)


@pytest.mark.parametrize(
    "value",
    [
        {"attention": {"flops": 4.3e9, "bytes": 8.4e6}},
        {"attention": (4.3e9, 8.4e6)},
        {"attention": KernelCost(4_300_000_000, 8_400_000)},
        "attention=4.3e9,8.4e6",
    ],
)
def test_an_option_takes_a_mapping_too(value):
    config = RunConfig(kernel_cost=value)
    assert parse_kernel_costs(config.kernel_cost).constants == {
        "attention": KernelCost(4_300_000_000, 8_400_000)
    }


@pytest.mark.parametrize(
    "value", [{"a;b": (1, 2)}, {"a": (1,)}, {"a": {"flops": 1}}, {"a": (1, -2)}, {1: (1, 2)}]
)
def test_a_wrong_mapping_names_the_option(value):
    with pytest.raises(HespasError, match=r"^kernel_cost: error: "):
        RunConfig(kernel_cost=value)


@pytest.mark.parametrize("compiler", ["triton", "mosaic_gpu"])
def test_the_declared_cost_of_a_pallas_kernel_counts_on_gpus(compiler):
    """JAX writes it for TPUs only. A kernel that runs twice on two arrays has it twice."""
    jax = pytest.importorskip("jax")
    from jax.experimental import pallas as pl

    module = pytest.importorskip(f"jax.experimental.pallas.{compiler}", exc_type=ImportError)

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    cost = pl.CostEstimate(flops=2_000_000_000, bytes_accessed=3_000_000, transcendentals=7)

    def double(x, cost):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        call = pl.pallas_call(
            copy, out_shape=shape, cost_estimate=cost, compiler_params=module.CompilerParams()
        )
        return call(call(x))

    x = jax.ShapeDtypeStruct((128, 128), "bfloat16")
    options = {"node": "H100_80GB", "estimator": "roofline"}
    result = hespas.estimate(functools.partial(double, cost=cost), x, **options)
    totals = result.summary.emitted.stats["totals"]
    assert totals["flops"] == 4_000_000_000
    assert totals["read_bytes"] + totals["write_bytes"] == 6_000_000
    with pytest.raises(HespasError, match="holds a kernel that only it can cost"):
        hespas.estimate(functools.partial(double, cost=None), x, **options)


UNKNOWN = """func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "guest.scale"(%x) ({ ^bb0(%q: tensor<f32>): "guest.yield"(%q) : (tensor<f32>) -> () })
    {power = 3 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.custom_call @mix(%0, %y)
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
"""
RULES = """from hespas.plugin import *

def compute_scale_work(op):
    size = to_buffer_size(op.operands[0].type)
    flops = op.attributes["power"].value * size.elements
    return OpWork("custom", size.bytes, size.bytes, (WorkPart("vector", "f32", flops),))

def compute_mix_work(op):
    return OpWork("custom", count_read_bytes(op), count_written_bytes(op), ())

RULES = [CostRule(compute_scale_work, ops=("guest.scale",)),
         CostRule(compute_mix_work, call_targets=("mix",))]
"""


@pytest.fixture
def unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program with an unregistered op that has a body, and a file of cost rules beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(UNREGISTERED_VARIABLE, raising=False)
    monkeypatch.setattr(registry, "_file_rules", {})
    monkeypatch.setattr(registry, "_named_files", set())
    Path("rules.py").write_text(RULES)
    path = Path("step.mlir")
    path.write_text(UNKNOWN)
    return path


def annotate(path: Path, options: str) -> tuple[list[int], str]:
    module = hespas.read(path, allow_unregistered=True)
    run_pipeline(module, f"roofline-annotate{{node=A100_SXM_40GB {options}}}")
    ops = module.body.operations[0].regions[0].blocks[0].operations
    costs = [Cost.read_from_op(ops[k].operation) for k in (0, 1)]
    return [cost.flops for cost in costs if cost is not None], str(module)


def test_any_op_has_the_cost_of_a_file_of_rules(unknown: Path) -> None:
    flops, text = annotate(unknown, "kernel-cost=rules.py")
    assert flops == [3 * 64 * 64, 0]
    again = hespas.read(text, allow_unregistered=True)
    notes: list[str] = []
    run_pipeline(again, "refresh-costs", PassRun(note=notes.append))
    assert notes == [], "the rules are those of the annotation"
    wrong = hespas.read(text.replace("power = 3", "power = 4"), allow_unregistered=True)
    run_pipeline(wrong, "refresh-costs", PassRun(note=notes.append))
    assert "guest.scale" in notes[0] and f"flops = {4 * 64 * 64} : i64" in str(wrong)


def test_rules_that_change_are_used_when_they_are_named_again(unknown: Path) -> None:
    _, text = annotate(unknown, "kernel-cost=rules.py")
    Path("rules.py").write_text(RULES.replace("* size.elements", "* 10 * size.elements"))
    assert annotate(unknown, "kernel-cost=rules.py")[0] == [30 * 64 * 64, 0]
    wrong = hespas.read(text.replace("power = 3", "power = 4"), allow_unregistered=True)
    with pytest.raises(HespasError, match=r"rules\.py: error: the cost rules have changed since"):
        run_pipeline(wrong, "refresh-costs")


def test_rules_of_one_program_do_not_hold_for_another(unknown: Path) -> None:
    """Neither for one that names none, nor against the rules that it names."""
    annotate(unknown, "kernel-cost=rules.py")
    with pytest.raises(HespasError, match="there is no cost rule for this op"):
        annotate(unknown, "")
    Path("other.py").write_text(RULES.replace("* size.elements", "* 10 * size.elements"))
    assert annotate(unknown, "kernel-cost=other.py")[0] == [30 * 64 * 64, 0]
    assert annotate(unknown, "kernel-cost=rules.py")[0] == [3 * 64 * 64, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RULES + "RULES += RULES", "the op guest.scale has a cost rule already; leave it out"),
        (RULES + "exit(3)", "the cost rules cannot be imported: SystemExit: 3"),
        (RULES.replace('"mix"', '"TopK"'), "the custom call TopK has a cost rule already"),
    ],
)
def test_files_without_usable_rules(unknown: Path, text: str, message: str) -> None:
    Path("rules.py").write_text(text)
    with pytest.raises(HespasError, match=message) as caught:
        annotate(unknown, "kernel-cost=rules.py")
    assert caught.value.where == "rules.py"


def test_unregistered_ops_in_commands(unknown: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "--mlir", str(unknown), "--node", "A100_SXM_40GB", "--estimator", "roofline"]
    assert run_tool_main(cli.main, argv) == 1
    assert "read its generic form with --allow-unregistered-dialect" in capsys.readouterr().err
    argv.append("--allow-unregistered-dialect")
    assert run_tool_main(cli.main, argv) == 1
    error = capsys.readouterr().err
    advice = "declare the work of guest.scale with kernel-cost=guest.scale=FLOPS:BYTES"
    assert "'guest.scale': there is no cost rule for this op" in error and advice in error
    costs = "--kernel-cost=guest.scale=7:32768;mix=1e9:4"
    assert run_tool_main(cli.main, [*argv, costs, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flops"] == 1e9 + 7
    assert run_tool_main(cli.main, [*argv, "--kernel-cost=rules.py", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flops"] == 3 * 64 * 64
