"""The page "Where do I change ...": its places exist, and changes that follow it arrive everywhere.

Changes are carried out in a throw-away copy of the repository. With a place left out, the test that
the page names for it must fail.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from pathlib import Path

import pytest
from support.budgets import PROFILE, thin_out
from support.paths import ROOT
from support.throw_away_tree import ThrowAwayTree
from support.tool_commands import parse_pipe, run_pipe

from hespas.configs.collective_algorithms import ALGORITHM_LIMITS
from hespas.estimators.registry import ESTIMATORS
from hespas.passes.emit import stats_model
from hespas.passes.fuse import simplify
from hespas.simulators.embedded.algorithms import ALGORITHMS

PAGE = ROOT / "docs" / "reference" / "maintaining.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ITEM = re.compile(
    r"^\d+\. (.+?): (.+?\*Left out:\* .+?)(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL
)
PLACE = re.compile(r"`([^`]+)`(?: \(((?:`[^`]+`(?:, )?)+)\))?")
TEST = re.compile(r"`(test/\S+?\.py)::(\w+)`")
FILE = re.compile(r"`([a-z_]+/[\w./-]+|[A-Za-z_.]+\.(?:md|py))`")
KINDS = (
    "A figure", "An option of an estimate", "A cost field", "An algorithm of collectives", "A pass",
    "The cost of an op", "An estimator", "A preset", "A recipe", "A study", "A published run",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PlaybookItem:
    """A numbered item of a playbook: the files with their names, and what happens without it."""

    places: dict[str, list[str]]
    text: str

    @property
    def left_out(self) -> str:
        return self.text.partition("*Left out:*")[2]


def read_playbooks() -> dict[str, list[PlaybookItem]]:
    """Read the items of each section."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.partition("\n")[0]: [
            PlaybookItem(
                {file: re.findall(r"`([^`]+)`", names) for file, names in PLACE.findall(head)},
                text,
            )
            for head, text in ITEM.findall(section)
        ]
        for section in sections
    }


def list_files(name: str) -> set[str]:
    """List the files that a playbook names, also in the text of its items."""
    return {
        file
        for item in read_playbooks()[name]
        for file in [*item.places, *FILE.findall(item.text)]
        if not re.search("NAME|PHASE|FAMILY", file)  # a file of the new thing
    }


@functools.cache
def list_names(file: str) -> set[str]:
    """List the names that a module defines or imports at its top level."""
    names: set[str] = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = (part for target in targets for part in ast.walk(target))
                names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names


# The page itself.


def test_each_kind_of_change_has_a_playbook() -> None:
    playbooks = read_playbooks()
    assert tuple(playbooks) == KINDS
    numbered = re.findall(r"^\d+\. ", PAGE.read_text(), re.MULTILINE)
    assert len(numbered) == sum(map(len, playbooks.values()))  # each item was read


@pytest.mark.parametrize("kind", KINDS)
def test_the_places_of_a_playbook_exist(kind: str) -> None:
    missing = [file for file in list_files(kind) if not (ROOT / file).exists()]
    for item in read_playbooks()[kind]:
        for file, names in item.places.items():
            if names:
                missing += [f"{file}: {name}" for name in {*names} - list_names(file)]
        tests = TEST.findall(item.left_out)
        missing += [f"{file}::{name}" for file, name in tests if name not in list_names(file)]
    assert not missing, f"bring {PAGE.name} up to date: {missing}"


# What else has a latency, by module: estimates of XLA, and systems.
OTHER_LATENCIES = {
    ("estimators/base.py", "estimate"),
    ("tools/commands/presets.py", "system"),
    ("workflows/calibration/micro_benchmarks.py", "one"),
    ("workflows/sensitivity/step_sensitivity.py", "system"),
    ("workflows/validation/case_systems.py", "inside"),
}


def test_readers_of_costs_read_the_whole_time() -> None:
    """``latency_ns`` is one part of ``Cost.time_ns``; only what builds costs reads it."""
    readers = {
        (path.relative_to(ROOT).as_posix(), ast.unparse(node.value))
        for room in ("estimators", "passes", "tools", "workflows")
        for path in (ROOT / room).rglob("*.py")
        if ".latency_ns" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "latency_ns"
    }
    assert readers == {("estimators/calibrated/calibrated_estimator.py", "base"), *OTHER_LATENCIES}


def test_good_code_of_contributing_is_from_this_tree() -> None:
    blocks = re.findall(r"^```py\n# ([^\n]*)\n(.*?)^```$", CONTRIBUTING.read_text(), re.M | re.S)
    good = [(place, code) for place, code in blocks if not place.startswith("Bad (")]
    assert good and len(blocks) > len(good)
    for place, code in good:
        assert code in (ROOT / place).read_text(), f"{place} has no longer\n{code}"


# Facts that stand in two places.


def test_every_algorithm_has_limits() -> None:
    unequal = set(ALGORITHMS) ^ set(ALGORITHM_LIMITS)
    assert not unequal, f"only in one of ALGORITHMS and ALGORITHM_LIMITS: {unequal}"


def test_every_simulator_is_documented() -> None:
    simulators = {name for name, path in ESTIMATORS.items() if ".accelerators." in path}
    places = {
        "mkdocs.yml": "how-to/simulator-{}.md",
        "docs/how-to/index.md": "(simulator-{}.md)",
        "docs/how-to/install.md": "(simulator-{}.md)",
        "docs/how-to/accelerators.md": "| `{}` |",
    }
    missing = [
        (page, name)
        for page, text in places.items()
        for name in simulators - {"systolic"}
        if text.format(name) not in (ROOT / page).read_text()
    ]
    assert not missing


def test_every_total_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "module-stats.md").read_text()
    described = set(re.findall(r"`(\w+)`", page))
    missing = set(stats_model.CostTotals.model_fields) - described
    assert not missing, f"docs/reference/module-stats.md does not describe {missing}"


def test_every_attribute_is_in_the_table_of_stages() -> None:
    dialect = (ROOT / "docs" / "reference" / "dialect.md").read_text()
    declared = set(re.findall(r"^(?:## |\| )`(hespas\.\w+)`", dialect, re.MULTILINE))
    design = (ROOT / "docs" / "design.md").read_text()
    table = design.partition("## What each stage leaves on the IR")[2].partition("\n## ")[0]
    assert declared == set(re.findall(r"`(hespas\.\w+)`", table))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "name"),
    [(rules, name) for rules in (simplify.REWRITES, simplify.NUMBER_REWRITES) for name in rules],
)
def test_every_rule_of_simplify_has_a_lit_case(
    rules: dict[str, object], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the rule, a lit test of the pass fails."""
    monkeypatch.delitem(rules, name)
    folder = ROOT / "test" / "lit" / "simplify"
    files = [folder / "rules.mlir", *sorted(folder.glob("*.mlir"))]
    assert any(map(find_lit_problem, files))


def find_lit_problem(file: Path) -> str:
    """Run the first command of a lit test; returns what went wrong, or ""."""
    line = file.read_text().partition("\n")[0].removeprefix("// RUN: ").replace("%s", str(file))
    stages = parse_pipe(line)
    assert stages is not None, f"{file}: {line}"
    return run_pipe(stages)


# Changes.


@pytest.fixture
def tree(tmp_path: Path) -> ThrowAwayTree:
    return ThrowAwayTree(tmp_path / "tree")


def check_changes(tree: ThrowAwayTree, kind: str) -> None:
    """Check that all files that a change has touched are in its playbook."""
    assert tree.changed <= list_files(kind), tree.changed - list_files(kind)


LAWS_OF_FIGURES = "test/laws/test_figures.py"
GENERATED = "test/unit/test_generated.py"
CURRENT = f"{GENERATED}::test_generated_page_is_current"
CONVENTION = "test/unit/test_conventions.py::test_a_pass_its_file_and_its_tests_share_a_name"


@pytest.mark.slow
def test_a_figure(tree: ThrowAwayTree) -> None:
    figure = """    Figure(
        "derived.flops_per_j", "operations of a joule", "count", "ratio", "`flops` by `energy_j`",
        lambda facts: divide(facts.executed_flops, facts.energy.energy_j), places=EVERYWHERE,
    ),"""
    of_a_program = figure.replace("facts.executed_flops", 'facts.totals["flops"]')
    tree.insert("workflows/figures.py", of_a_program, before='    Figure(\n        "gaps"')
    tree.add(
        "test/laws/test_throw_away.py",
        """from test_figures import PRINTERS, case, make_study_row, sweep_one_cell

def test_shown(case, tmp_path):
    assert case.result.figures["derived"]["flops_per_j"] > 0
    assert sweep_one_cell(tmp_path)["derived.flops_per_j"] > 0
    assert make_study_row(case)["flops_per_j"] > 0
    for place in sorted({*PRINTERS} - {"show", "study", "plan terminal"}):
        labels = [label for label in PRINTERS[place](case) if "perations of a joule" in label]
        assert len(labels) == 1, place
""",
    )
    tests = (LAWS_OF_FIGURES, "test/laws/test_throw_away.py", "-k", "names or labels or shown")
    undocumented = f"{LAWS_OF_FIGURES}::test_names_of_runs"
    not_of_pipelines = f"{LAWS_OF_FIGURES}::test_names_of_pipelines"
    assert tree.find_failures(LAWS_OF_FIGURES, "-k", "names") == {undocumented, not_of_pipelines}
    tree.replace("workflows/figures.py", of_a_program, figure)
    assert "`flops_per_j`" in tree.generate("docs/reference/figures.md").replace("derived.", "")
    assert tree.find_failures(*tests) == set()
    check_changes(tree, "A figure")


# Fields of a cost: a part of the time, a part of the energy, an amount that every cost has, and
# one of which a sum has the largest.
FIELDS = {
    "host_ns": "float | None = declare_field('time of the host', default=None, adds=TIME)",
    "cooling_nj": "float | None = declare_field('fans', default=None, adds=SUM)",
    "spilled_bytes": "int = declare_field('bytes spilled', default=0, adds=SUM)",
    "scratch_bytes": "int | None = declare_field('workspace', default=None, adds=LARGEST)",
}
SUMS = "test/laws/test_sums.py::test_a_whole_program_agrees"


@pytest.mark.slow
@pytest.mark.parametrize("name", thin_out(FIELDS, 2))
def test_a_cost_field(name: str, tree: ThrowAwayTree) -> None:
    """All readers know a field that is declared; what has to be written is a description."""
    described = "test/unit/test_playbooks.py::test_every_total_is_described"
    statistics = f"{GENERATED}::test_module_stats_fit_the_schema"
    rule = "test/laws/test_sums.py::test_every_field_of_a_cost_has_a_rule"
    is_count = FIELDS[name].startswith("int =")
    line = f"    {name}: {FIELDS[name]}"
    tree.insert("dialects/attrs.py", line, before="    integer_product_flops: int")
    run_json = {f"{SUMS}[linear]"} if is_count else set()
    failing = tree.find_failures(f"{SUMS}[linear]", statistics, described, rule)
    assert failing == {described} | run_json
    tree.replace("docs/reference/module-stats.md", "`leakage_nj`", f"`leakage_nj`, `{name}`")
    if is_count:
        figure = f'    Figure("{name}", "spilled", "B", "sum", "spilled", _sum("{name}")),'
        tree.insert("workflows/figures.py", figure, before='    Figure(\n        "gaps"')
    assert tree.find_failures(described, *run_json) == set()
    assert f"`{name}`" in tree.generate("docs/reference/dialect.md")
    check_changes(tree, "A cost field")
    assert len(tree.changed - {"docs/reference/dialect.md"}) <= 3


@pytest.mark.slow
def test_a_maximum_that_a_sum_lacks_is_noticed(tree: ThrowAwayTree) -> None:
    line = f"    scratch_bytes: {FIELDS['scratch_bytes']}"
    tree.insert("dialects/attrs.py", line, before="    integer_product_flops: int")
    tree.replace("estimators/aggregate.py", "**find_maxima(executed),", "")
    assert tree.find_failures(f"{SUMS}[linear]") == {f"{SUMS}[linear]"}


@pytest.mark.slow
def test_a_cost_field_without_a_rule(tree: ThrowAwayTree) -> None:
    line = "    spare: int = declare_field('spare', default=0)"
    tree.insert("dialects/attrs.py", line, before="    integer_product_flops: int")
    rule = "test/laws/test_sums.py::test_every_field_of_a_cost_has_a_rule"
    assert tree.find_failures(rule) == {rule}


@pytest.mark.slow
def test_an_option(tree: ThrowAwayTree, tmp_path: Path) -> None:
    """An option of all estimates, used by one estimator, works in every command."""
    option = """    launch_ns: float = Field(
        default=0.0, ge=0, description="time between kernels, in nanoseconds"
    )"""
    tree.insert("workflows/run_config.py", option, before="    keep_going: bool")
    program = """
import sys
from pathlib import Path
sys.path.insert(0, "test/laws")
import pytest
import test_options
from support import option_cases
cases = [case for case in option_cases.list_cases() if case.option == "launch_ns"]
assert [case.title for case in cases] == ["launch_ns=100000000000.0"]
test_options.list_cases = option_cases.list_cases = lambda: cases
test_options.NO_EFFECT = {}
test_options.test_ways_to_an_estimate_agree(Path(sys.argv[1]))
try:
    test_options.test_options_have_an_effect(Path(sys.argv[1]))
except AssertionError:
    print("without effect")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--no-summary", *sys.argv[2:]]))
"""
    hand_overs = "test/laws/test_option_hand_overs.py"
    words = (str(tmp_path), hand_overs, "-k", "all_options")
    assert tree.run_python(program, *words).startswith("without effect\n")
    estimator = "estimators/calibrated/calibrated_estimator.py"
    field = '    launch_ns: float = setting(0.0, "time between kernels, in nanoseconds")'
    tree.insert(estimator, field, before="    job_devices: int = setting(")
    time = "timed.time_s + 1e-9 * self.config.launch_ns"
    use = f"        timed = replace(timed, time_s={time})"
    tree.insert(estimator, use, before="        self.tag_counts.update(timed.tags)")
    settings = '{**config.setting, **({"launch-ns": config.launch_ns} if config.launch_ns else {})}'
    tree.replace(
        "workflows/run_plan.py",
        "config.node, config.setting, collect",
        f"config.node, {settings}, collect",
    )
    assert not tree.run_python(program, *words).startswith("without effect")
    assert len(tree.changed) == 3
    for page in ("docs/reference/run-config.md", "docs/reference/cli.md"):
        assert "--launch-ns" in tree.generate(page)
    commands = tree.generate("docs/reference/run-config.md").partition("| command |")[2]
    assert commands.count("`launch_ns`") == 4
    check_changes(tree, "An option of an estimate")


@pytest.mark.slow
@pytest.mark.skipif(PROFILE != "nightly", reason="test_an_option follows the same list of places")
def test_an_option_of_the_network(tree: ThrowAwayTree) -> None:
    """Every command has it, and each model must use it. Other simulators refuse it."""
    option = """    send_ns: float | None = Field(
        default=None, ge=0, description="time to send a message, in nanoseconds"
    )"""
    tree.insert("workflows/run_config.py", option, before="    curves: Annotated[str | None")
    simulation = "simulators/simulation_options.py"
    tree.insert(simulation, "    send_ns: float = 0.0", before="    symmetry: bool = True")
    program = """
from hespas.tools.commands import simulate
from hespas.simulators import astra
from hespas.workflows.network_settings import NetworkSettings
words = simulate.build_parser().parse_args(["traces", "--send-ns", "2"])
options = NetworkSettings(send_ns=words.send_ns).build_options()
print(astra.describe_missing_features(options), options.send_ns)
"""
    assert tree.run_python(program) == "--send-ns 2.0\n"
    more = '    "send_ns": {"curves": "none", "between_hosts": "network"},'
    tree.insert("test/support/option_cases.py", more, before='    "fuse=True":')
    laws = "test/laws/test_options.py::test_options_have_an_effect_in_each_model_of_the_network"
    assert tree.find_failures(laws) == {f"{laws}[{model}]" for model in ("flows", "astra")}
    flows = "system.endpoint_delay_ns * options.injection_scale"
    tree.replace("simulators/embedded/flows/flow_engine.py", flows, f"{flows} + options.send_ns")
    assert tree.find_failures(laws) == {f"{laws}[astra]"}
    astra = "_COMMUNICATOR_DELAY_NS if communicator.part"
    used = astra.replace(" if", " + int(self.options.send_ns) if")
    tree.replace("simulators/embedded/collective_plan.py", astra, used)
    assert tree.find_failures(laws) == set()
    check_changes(tree, "An option of an estimate")


@pytest.mark.slow
def test_an_algorithm(tree: ThrowAwayTree) -> None:
    folder = "simulators/embedded/algorithms"
    tree.add(
        f"{folder}/twice_round.py",
        '''"""Twice around a ring."""

from dataclasses import replace
from typing import ClassVar

from .ring import RingAlgorithm


class TwiceRoundAlgorithm(RingAlgorithm):
    name: ClassVar[str] = "twiceRound"

    def list_rounds(self, kind, count, both_ways):
        rounds = super().list_rounds(kind, count, both_ways)
        return [replace(each, repeats=2 * each.repeats) for each in rounds]
''',
    )
    registry = f"{folder}/__init__.py"
    imported = "from .twice_round import TwiceRoundAlgorithm"
    tree.insert(registry, imported, before="from .ring import")
    tree.insert(registry, "        TwiceRoundAlgorithm(),", before="        RingAlgorithm(),")
    test = "test/unit/test_playbooks.py::test_every_algorithm_has_limits"
    assert tree.find_failures(test) == {test}
    limits = '    "twiceRound": AlgorithmLimits(_REDUCE_AND_GATHER),'
    tree.insert("configs/collective_algorithms.py", limits, before='    "direct": AlgorithmLimits(')
    assert tree.find_failures(test) == set()
    program = """
from dataclasses import replace
from support.flow_cases import load_network, time_collectives
from docs.generators.schemas import format_schema_files
ring = load_network("ring:9,links=2")
for name in ("ring", "twiceRound"):
    system = replace(ring, implementations={"all-reduce": (name,)})
    print(time_collectives(system, "all_reduce", 1 << 30, [range(9)]))
assert "|twiceRound|" in format_schema_files()["system.json"]
"""
    ring, twice = map(float, tree.run_python(program).split())
    assert twice == pytest.approx(2 * ring, rel=0.01)
    assert "twiceRound" in tree.generate("docs/reference/cli.md")
    check_changes(tree, "An algorithm of collectives")


@pytest.mark.slow
def test_a_pass(tree: ThrowAwayTree) -> None:
    tree.add(
        "passes/split/count_kernels.py",
        '''from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.base import Pass


@dataclass(frozen=True)
class CountKernelsPass(Pass):
    """Count kernels."""

    name: ClassVar[str] = "count-kernels"

    def apply(self, module, run):
        run.warn("there are 7 kernels")
''',
    )
    tree.replace("passes/registry.py", '"split-linear",', '"split-linear", "count-kernels",')
    page = f"{CURRENT}[docs/reference/passes.md]"
    assert tree.find_failures(page, CONVENTION) == {page, CONVENTION}
    tree.add("test/lit/count-kernels/count.mlir", "// RUN: hespas-opt %s --count-kernels\n")
    assert "## count-kernels" in tree.generate("docs/reference/passes.md")
    assert tree.find_failures(page, CONVENTION) == set()
    program = """
import contextlib, io, sys
from hespas.tools import hespas_opt
with contextlib.redirect_stderr(io.StringIO()) as printed:
    hespas_opt.main(["docs/examples/llama3-100m.mlir.xz", "--count-kernels", "-o", "/dev/null"])
print(printed.getvalue())
"""
    assert "there are 7 kernels" in tree.run_python(program)
    check_changes(tree, "A pass")


@pytest.mark.slow
def test_an_op(tree: ThrowAwayTree) -> None:
    """An op whose rule has been removed gets another one."""
    rules = "estimators/rules/elementwise.py"
    tree.replace(rules, "sinh tan zeta", "sinh zeta")
    program = '''
import hespas
from hespas.plugin import collect_functions, compute_op_work
text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.tan %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
module = hespas.read(text)
block = collect_functions(module)["main"].regions[0].blocks[0]
try:
    print(compute_op_work(block.operations[0].operation).flops)
except hespas.HespasError as error:
    print(error.message)
'''
    assert "there is no cost rule for this op" in tree.run_python(program)
    page = f"{CURRENT}[docs/reference/op-costs.md]"
    every_op = "test/unit/test_work.py::test_every_op_has_a_rule"
    assert tree.find_failures(page, every_op) == {page, f"{every_op}[chlo]"}
    row = '    _build_arithmetic_rule("chlo.tan"),'
    tree.insert(rules, row, before="    CostRule(\n        _compute_transcendental_work")
    assert tree.run_python(program) == "4\n"
    assert "`tan`" in tree.generate("docs/reference/op-costs.md")
    assert tree.find_failures(page, every_op) == set()
    tree.changed.remove(rules)  # the file of the family, which the page cannot name
    check_changes(tree, "The cost of an op")


@pytest.mark.slow
def test_an_estimator(tree: ThrowAwayTree) -> None:
    tree.add(
        "estimators/flat.py",
        '''from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.attrs import Cost
from hespas.estimators.base import Estimator
from hespas.support.settings import setting


@dataclass(frozen=True)
class FlatConfig:
    time_ns: float = setting(7.0, "time of an op")


class FlatEstimator(Estimator):
    """Take one time for each op."""

    name: ClassVar[str] = "flat"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = FlatConfig

    def __init__(self, config):
        self.config = config

    def estimate(self, item):
        return Cost("flat", 0, 0, 0, self.config.time_ns, "latency")
''',
    )
    place = '    "flat": "hespas.estimators.flat:FlatEstimator",'
    tree.insert("estimators/registry.py", place, before='    "iree":')
    page = f"{CURRENT}[docs/reference/passes.md]"
    assert tree.find_failures(page, CONVENTION) == {page, CONVENTION}
    tree.add("test/lit/flat-annotate/flat.mlir", "// RUN: hespas-opt %s --flat-annotate\n")
    assert "## flat-annotate" in tree.generate("docs/reference/passes.md")
    assert tree.find_failures(page, CONVENTION) == set()
    program = """
import hespas
text = '''func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}'''
for settings in ({}, {"time-ns": 9.0}):
    module = hespas.read(text)
    estimate = hespas.estimate(module, node="H100_80GB", estimator="flat", setting=settings)
    print(estimate.to_run_result().figures["compute_s"])
"""
    assert [float(line) for line in tree.run_python(program).split()] == pytest.approx([7e-9, 9e-9])
    check_changes(tree, "An estimator")
