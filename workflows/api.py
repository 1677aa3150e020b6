"""The functions of the package ``hespas``, which re-exports them and those of studies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

from hespas.configs.validation import validate_config
from hespas.dialects.mlir import ir
from hespas.support.errors import UsageError
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows import run_comparison, run_flow, run_plan
from hespas.workflows.estimate_source import load_program_source, read_program
from hespas.workflows.program_estimate import ProgramEstimate
from hespas.workflows.program_form import FUSE
from hespas.workflows.run_config import (
    OUTPUTS,
    convert_by_dimension,
    load_json_object,
    take_run_options,
)
from hespas.workflows.run_flow import TextFunction, ignore_text

if TYPE_CHECKING:
    from hespas.simulators.report_rows import SimulationReport
    from hespas.workflows.planning.plan_result import LayoutPlan
    from hespas.workflows.run_comparison import ComparedResult, WorkScaling
    from hespas.workflows.run_summary import RunSummary
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity
    from hespas.workflows.sweep.sweep_runner import SweepOutcome

Program = Union[str, bytes, "os.PathLike[str]", ir.Module, Any]
"""MLIR or HLO text or bytes, a file, open or by its path, an ``ir.Module``, or a ``Lowered``."""


def read(program: Program, *, allow_unregistered: bool = False) -> ir.Module:
    """Read a program into an MLIR module.

    Args:
        program: The path of a file (StableHLO text or bytecode, a portable artifact, what
            ``jax.export`` serialises, HLO text or an HLO protobuf, also compressed as ``.xz`` or
            ``.gz``), the contents of such a file as text or any kind of bytes, an open file, an
            ``ir.Module``, or what ``jax.jit(f).lower(...)`` returns. A string with a line break is
            taken as text.
        allow_unregistered: Whether ops of unknown dialects are accepted, in generic form. An
            estimate needs their cost: a cost rule, or the option ``kernel_cost``.

    Returns:
        The module. An ``ir.Module`` is returned as it is, and that of a ``Lowered`` is a copy.

    Raises:
        HespasError: The program cannot be read or is not valid.
    """
    return read_program(program, allow_unregistered=allow_unregistered)


def estimate(
    program: Program | Callable[..., Any],
    *args: Any,
    target: str | None = None,
    node: str | None = None,
    system: str | None = None,
    estimator: str = "calibrated",
    form: str | None = None,
    fuse: bool = False,
    note: TextFunction = ignore_text,
    **options: Any,
) -> ProgramEstimate:
    """Estimate how long one step of a program takes. Leaves no file behind.

    A JAX function is lowered for its arguments in this process: nothing is allocated, and no device
    is needed. The operations of its model are counted in the lowered program, so that the result
    has an MFU (see docs/how-to/estimate.md).

    Args:
        program: A JAX function, jitted or not, with its arguments; or what `hespas.read` takes. A
            module in memory is copied first and stays as it is.
        *args: The arguments of the function: arrays or ``jax.ShapeDtypeStruct``, whose shardings
            may be over a mesh of abstract devices.
        target: The type of device: a preset such as ``"H100_80GB"``, or a JSON file.
        node: The same as ``target``, under its name in the configuration of a run.
        system: The network: a preset such as ``"HGX_H100_8"``, or a folder. Without one there is
            no step time for a program that communicates.
        estimator: The name of the estimator.
        form: ``"xla"`` compiles with XLA for the node, which takes seconds to minutes, once for
            each program; ``"fuse"`` groups ops into kernels as XLA would; and ``"as-is"`` takes the
            ops of the program. By default as `hespas.run`: ``"xla"`` for what XLA has not
            optimised, where its compiler for the node is installed; otherwise ``"fuse"`` for
            functions and for what ``jax.jit(f).lower(...)`` returns.
        fuse: The same as ``form="fuse"``.
        note: Receives warnings and notes as they occur, one line each.
        **options: Other options of a run, see docs/reference/run-config.md.

    Returns:
        Times, memory, their breakdown, and the annotated module.

    Raises:
        HespasError: The program cannot be read or estimated, or a preset does not exist. Errors of
            JAX and of the function itself are passed on.
    """
    for name in OUTPUTS:
        if name in options:
            raise UsageError(f"estimate writes no files: '{name}'", remedy="use hespas.run")
    device = _select_device(target, node)
    source = load_program_source(program, args, device)
    values = {**options, "form": form, "fuse": fuse}
    values |= {"mlir": source.name, "node": device, "system": system, "estimator": estimator}
    plan = run_plan.build_run_plan(run_plan.merge_run_config(values, {}, "hespas.estimate"))
    if source.is_lowered:
        plan = replace(plan, form=replace(plan.form, otherwise=FUSE))
    with open_temporary_folder() as scratch:
        plan = run_flow.place_traces(plan, os.path.join(scratch, "traces"))
        run = run_flow.create_pass_run(plan, note)
        run.spell_option = _spell_argument
        outcome = run_flow.execute_plan(plan, run, module=source.module)
    return ProgramEstimate(run_flow.summarise_run(plan, outcome), outcome.module)


def _spell_argument(name: str, value: str) -> str:
    return f'{name}="{value}"'


def _select_device(target: str | None, node: str | None) -> str:
    """Return the device that either argument names; raises UsageError."""
    if target is not None and node is not None and target != node:
        raise UsageError(f"'target' is {target}, but 'node' is {node}", remedy="name one of them")
    device = target or node
    if device is None:
        raise UsageError("no type of device is given", remedy='name it, as in target="H100_80GB"')
    return device


def sensitivity(
    program: ProgramEstimate | Program | Callable[..., Any], *args: Any, **options: Any
) -> StepSensitivity:
    """Evaluate a step at other rates of its node and its network.

    Args:
        program: An estimate, the output folder of a run, or what `hespas.estimate` takes.
        *args: The arguments of a function, as for `hespas.estimate`.
        **options: The keywords of `hespas.estimate`; none for an estimate or a folder.

    Returns:
        The elasticity of the step to every rate, and where each of them stops to matter.

    Raises:
        HespasError: The program cannot be estimated, or the estimator measures or takes its rates
            from no node.
    """
    if isinstance(program, (str, os.PathLike)) and os.path.isdir(folder := os.fspath(program)):
        from hespas.workflows.network_settings import read_recorded_network
        from hespas.workflows.run_results import read_annotated_module
        from hespas.workflows.sensitivity.step_sensitivity import analyse_step

        _refuse_options(args, options)
        module = read_annotated_module(str(folder))
        return analyse_step(module, read_recorded_network(str(folder)), is_current=True)
    if isinstance(program, ProgramEstimate):
        _refuse_options(args, options)
        return program.sensitivity()
    return estimate(program, *args, **options).sensitivity()


def _refuse_options(args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise UsageError if there are arguments or options for a result."""
    if args or options:
        raise UsageError("it is a result already: arguments and options do not change it")


def run(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    note: TextFunction = ignore_text,
    **options: Any,
) -> RunSummary:
    """Run the whole flow as ``hespas run`` does, and write traces and results to a folder.

    Args:
        config: A configuration file (JSON), or its keys and values.
        note: Receives warnings and notes, one line each.
        **options: Options that override the configuration, such as ``mlir="step.mlir"``,
            ``node="H100_80GB"`` or ``output="out"``; see docs/reference/run-config.md.

    Returns:
        All figures of the run, as ``hespas run`` reports them.

    Raises:
        HespasError: The program cannot be read or estimated, or an option is wrong.
    """
    if config is None or isinstance(config, Mapping):
        values, where = config or {}, "hespas.run"
    else:
        where = os.fspath(config)
        values = load_json_object(where)
    request = run_plan.merge_run_config(values, options, where)
    return run_flow.run_program(request, note=note)


def simulate(
    traces: str | os.PathLike[str],
    system: str | None = None,
    *,
    simulator: str | None = None,
    astra_sim: str | None = None,
    prefix: str | None = None,
    groups_file: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    timeline: str | None = None,
    note: TextFunction = ignore_text,
    **options: Any,
) -> SimulationReport:
    """Simulate a folder of Chakra traces on a network, as ``hespas simulate`` does.

    In the folder of a run, its system, its simulator and its network model are the defaults.

    Args:
        traces: The folder with ``PREFIX.N.et`` files and ``comm_group.json``.
        system: A system preset or folder.
        simulator: ``auto``, ``embedded``, ``astra-sim`` or ``both``.
        astra_sim: The ASTRA-sim executable; None searches PATH.
        prefix: The name of the traces, if the folder holds several programs.
        groups_file: The file of the communicators; None for ``comm_group.json`` in the folder.
        timeout_s: The seconds that ASTRA-sim may take.
        timeline: A file for a Perfetto timeline.
        note: Receives notes, one line each.
        **options: Fields of ``SimulationOptions``: the network model, such as
            ``congestion=True`` or ``slowdown=0.18``.

    Returns:
        Step time and communication by device, collective and communicator, the critical path, and
        exposed communication.

    Raises:
        HespasError: The traces or the system are wrong, or do not fit together.
    """
    from hespas.workflows import network_settings, simulation_report

    names = network_settings.NetworkSettings.model_fields
    named = {"system": system, "simulator": simulator, "astra_sim": astra_sim}
    overrides = {name: value for name, value in named.items() if value is not None}
    options = convert_by_dimension(options)
    overrides |= {name: options.pop(name) for name in list(options) if name in names}
    network = network_settings.resolve_network(traces, overrides, prefix, note)
    choice = network.choice
    return simulation_report.simulate_traces(
        simulation_report.load_trace_inputs(os.fspath(traces), network.system, prefix, groups_file),
        replace(choice, options=replace(choice.options, **options), timeout_s=timeout_s),
        timeline=timeline,
        note=note,
    )


def sweep(
    keys: str | os.PathLike[str] | Mapping[str, Any],
    *,
    jobs: int = 1,
    dask: str = "",
    cache: str = "",
    timeout_s: float = 3600.0,
    note: TextFunction = ignore_text,
) -> SweepOutcome:
    """Estimate every combination of programs, nodes, systems and other options.

    Args:
        keys: The options of a run, each a value or a list of values, or a file that holds them
            (YAML or JSON); see docs/reference/sweep.md.
        jobs: The number of worker processes.
        dask: The address of a Dask cluster that runs the cells instead.
        cache: The file that keeps finished cells: "" for the default one, "none" for none.
        timeout_s: The seconds that one cell may take.
        note: Receives notes and progress, one line each.

    Returns:
        One row for each cell. A cell that fails has a row with ``error``.

    Raises:
        HespasError: A key or a value is wrong; this is found before any cell is run.
    """
    from hespas.workflows import cells
    from hespas.workflows.sweep import sweep_grid, sweep_runner

    values = keys if isinstance(keys, Mapping) else sweep_grid.read_sweep_file(os.fspath(keys))
    options = cells.PoolOptions(jobs=jobs, dask=dask, cache=cache, timeout_s=timeout_s)
    return sweep_runner.run_sweep(sweep_grid.expand_cells(values), options, note)


def plan(
    program: str | Callable[..., Any],
    *args: Any,
    node: str,
    devices: int,
    global_batch: int | None = None,
    global_tokens: int | None = None,
    mesh: Mapping[str, int | Sequence[int]] | None = None,
    options: Mapping[str, Any] | None = None,
    dcn: Mapping[str, int | Sequence[int]] | None = None,
    note: TextFunction = ignore_text,
    spec: str | os.PathLike[str] = "",
    **settings: Any,
) -> LayoutPlan:
    """Find the fastest layout of a program on a machine, as ``hespas plan`` does.

    Args:
        program: A recipe, ``module:function`` or ``FILE.py[:function]``, as of ``hespas export``;
            or a function of this process: with ``*args`` what a step runs, without a function that
            takes ``mesh``, ``batch`` (or ``global_batch``) and other options and returns an
            ``Exportable``.
        *args: The arguments of the function, with the whole batch: arrays or
            ``jax.ShapeDtypeStruct``, also in Flax's boxes with logical names.
        node: The type of device: a preset.
        devices: The number of devices.
        global_batch: Samples of a step over all devices: sequences, or images. A function with
            ``*args`` needs it only for rates.
        global_tokens: Tokens of a step over all devices, instead of ``global_batch``.
        mesh: The size of mesh axes, each a number or a list of those to try; by default every
            divisor of the number of devices.
        options: The options of the program, each a value or a list of those to try; of a function
            with ``*args``, its keyword arguments.
        dcn: The parts of mesh axes between slices of TPUs, or hosts, each a number or a list of
            those to try, and all of axes left out; by default the first axes lie between them.
        note: Receives notes and progress, one line each.
        spec: The specification of a plain function that ``program`` names.
        **settings: Options of each estimate, such as ``estimator``, see
            docs/reference/run-config.md, and fields of ``PlanOptions``, such as ``systems``,
            ``top``, ``compile_count`` and ``jobs``. For a function with ``*args`` also ``rules``,
            ``logical_axes`` and ``out_logical_axes``, or ``shardings``, and ``mesh_axes`` and
            ``donate_argnums``, see docs/how-to/plan.md.

    Returns:
        A row for each layout, best first, and how to build the winner. ``print`` shows it as
        tables.

    Raises:
        HespasError: An option is wrong, or JAX is not installed.
    """
    from hespas.workflows.planning import layout_builders, layout_space, plan_search

    tried = {name: _list_values(values) for name, values in (options or {}).items()}
    texts = {name: {_format_option(v): v for v in values} for name, values in tried.items()}
    facts = {"samples_per_step": global_batch, "tokens_per_step": global_tokens}
    builder, others = layout_builders.make_function_builder(
        program, args, texts, {name: value for name, value in facts.items() if value}, settings
    )
    request = layout_space.LayoutRequest(
        builder.name if builder else str(program),
        node,
        devices,
        global_batch,
        {name: [int(size) for size in _list_values(sizes)] for name, sizes in (mesh or {}).items()},
        {name: list(values) for name, values in texts.items()},
        spec_file=os.fspath(spec),
        global_tokens=global_tokens,
        dcn=None if dcn is None else {n: list(_list_values(parts)) for n, parts in dcn.items()},
    )
    run, others = take_run_options("hespas plan", others)
    values = {"run": run, **others}
    plan_options = validate_config(layout_space.PlanOptions, values, "hespas plan", UsageError)
    return plan_search.plan_layouts(request, plan_options, note, builder=builder)


def _list_values(values: Any) -> Sequence[Any]:
    return values if isinstance(values, (list, tuple)) else [values]


def _format_option(value: Any) -> str:
    """Format the value of an option as on the command line."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def compare(
    sources: Sequence[str | os.PathLike[str]],
    *,
    nodes: Sequence[str] = (),
    systems: Sequence[str] = (),
    work: WorkScaling = "auto",
    note: TextFunction = ignore_text,
    **options: Any,
) -> list[ComparedResult]:
    """Compare programs, nodes or results with the first of them, as ``hespas compare`` does.

    Args:
        sources: Programs, configurations (.json), result folders, or tables of a sweep.
        nodes: The nodes that each program is run on.
        systems: One system for all, or one for each program, or one for each node if there is one
            program only; ``{node}`` in a name stands for the node.
        work: How much programs of different device counts do: ``auto``, ``flops``, ``strong`` or
            ``weak``; see docs/how-to/compare.md.
        note: Receives warnings and notes, one line each.
        **options: Other options of a run, see docs/reference/run-config.md.

    Raises:
        HespasError: A source cannot be read or run, or there is only one.
    """
    request = run_comparison.ComparisonRequest(
        [os.fspath(source) for source in sources], nodes, systems, options, work
    )
    with run_comparison.open_results(request, note=note) as results:
        return run_comparison.compare_results(results, work)
