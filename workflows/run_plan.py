"""The plan of a run: a checked configuration as passes, a system, and simulation options."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.kernel_costs import parse_kernel_costs
from hespas.configs.nccl_constants import find_nccl_generation
from hespas.configs.system_spec import SystemSpec
from hespas.configs.validation import validate_config
from hespas.estimators import registry as estimators
from hespas.passes import registry
from hespas.passes.annotate.annotate import refuse_measure_options
from hespas.passes.base import Pass, build_pass
from hespas.passes.compile.compiler_process import DEVICES_PER_HOST
from hespas.passes.emit.emit_chakra import TRACES, EmitChakraPass
from hespas.support.errors import UsageError
from hespas.support.folder_manifest import OutputSet
from hespas.support.output_file import check_writable_file
from hespas.support.output_folder import check_writable_folder
from hespas.workflows.network_settings import NetworkSettings, SimulatedNetwork
from hespas.workflows.program_form import (
    FUSE,
    FormRequest,
    build_pass_step,
    check_compile_options,
)
from hespas.workflows.run_config import MEASURING, STEP, RunConfig

LINEAR = "linear"
# The traces and results of a run. They are the same set as the traces of ``emit-chakra`` alone, so
# that new traces never lie beside the results of old ones.
RUN_FILES = OutputSet(
    TRACES.name,
    re.compile(
        r"dev\.\d+\.et|(comm_group|module_stats|run|simulation|memory_timeline)\.json|annotated\.mlirbc"
    ),
)


@dataclass(frozen=True)
class RunPlan:
    """Everything that a run does.

    Attributes:
        mlir: The file of the program.
        steps: The passes, in order; ``prepare`` is inserted when the plan is executed.
        emit: The pass that makes the traces, after the others; None for none.
        form: The form of the program, whose passes come first.
        system: The network; its number of devices must equal the program's.
        devices: The number of devices that the program must have; None accepts any.
        dims: Sizes of symbolic dimensions, as the option of ``prepare``.
        trip_count: The trip count of loops that depend on data; None for what ``prepare`` assumes.
        keep_going: Whether ops without a cost are tagged and counted instead of raising.
        network: The system, and how to simulate the traces on it; None does not simulate.
        network_settings: What ``hespas simulate`` uses by default for the traces, also if the run
            itself does not simulate them.
        step_figures: Values of the options ``run_config.STEP`` that the user set.
        sensitivity: Whether to evaluate the step at other rates of node and network.
    """

    mlir: str
    steps: tuple[Pass, ...]
    emit: Pass | None = None
    system: SystemSpec | None = None
    devices: int | None = None
    form: FormRequest = field(default_factory=FormRequest)
    dims: str = ""
    trip_count: int | None = None
    keep_going: bool = False
    network: SimulatedNetwork | None = None
    network_settings: NetworkSettings = field(default_factory=NetworkSettings)
    step_figures: Mapping[str, float] = field(default_factory=dict)
    sensitivity: bool = False


def merge_run_config(
    values: Mapping[str, Any], overrides: Mapping[str, Any], where: str
) -> RunConfig:
    """Check a configuration whose keys ``overrides`` replace; settings are merged key by key.

    Raises:
        HespasError: A key or a value is wrong; the message names ``where``.
    """
    merged = {**values, **overrides}
    if "setting" in overrides and isinstance(values.get("setting"), dict):
        merged["setting"] = {**values["setting"], **overrides["setting"]}
    return validate_config(RunConfig, merged, where)


def build_run_plan(config: RunConfig, where: str = "") -> RunPlan:
    """Build the plan of a configuration.

    Raises:
        HespasError: A preset does not exist, or an output cannot be written. Both are found
            before any work is done.
    """
    if config.mlir is None:
        raise UsageError("no program is given", where=where, remedy="name it with --mlir FILE")
    if config.output:
        is_inside = is_file_of_folder(config.timeline, config.output)
        names = [os.path.basename(str(config.timeline))] if is_inside else []
        check_writable_folder(config.output, RUN_FILES, names)
    if config.node:
        configs.load_node(config.node)
    strategy, _, merge = select_split(config).partition("-")
    split: dict[str, str | bool] = {"block-limit": str(config.block_limit)}
    if strategy == "individual":
        split["merge"] = bool(merge)
    # It depends on the order of kernels, which a split may change.
    keeps_values = estimators.load_estimator_class(config.estimator).keeps_values
    steps = (
        *([build_pass_step("on-chip-annotate", {})] if keeps_values else ()),
        build_pass_step(f"split-{strategy}", split),
        build_annotate_step(
            config.estimator, config.node, config.setting, collect_annotate_options(config)
        ),
    )
    system = load_system(config.system)
    plan = RunPlan(
        config.mlir,
        steps,
        EmitChakraPass(output=config.output or ""),
        system,
        form=request_program_form(config, system),
        dims=config.dims or "",
        trip_count=config.trip_count,
        keep_going=config.keep_going,
        network=plan_network(config, system),
        network_settings=select_network_settings(config),
        sensitivity=config.sensitivity,
    )
    return add_requested_figures(plan, config)


def request_program_form(config: RunConfig, system: SystemSpec | None) -> FormRequest:
    """Return the form of the program that a configuration asks for on a system.

    Raises:
        HespasError: There is no such form, or its options are wrong.
    """
    if config.fuse and config.form not in (None, FUSE):
        raise UsageError(f"'fuse' is the form fuse, but 'form' is {config.form}")
    request = FormRequest(
        FUSE if config.fuse else config.form,
        config.node,
        _estimates_real_times(config),
        system.npus_count[0] if system else DEVICES_PER_HOST,
        xla_options=config.xla_optimize,
        overlap=config.overlap,
    )
    check_compile_options(request)
    return request


def is_file_of_folder(file: str | None, folder: str | Path | None) -> bool:
    """Return whether a path names a file directly in a folder; both may not exist yet."""
    if file is None or folder is None:
        return False
    return os.path.realpath(os.path.dirname(file)) == os.path.realpath(folder)


def add_requested_figures(plan: RunPlan, config: RunConfig) -> RunPlan:
    """Add the memory analysis and the figures of a step that a configuration asks for.

    The memory analysis runs before splitting, which moves ops.
    """
    steps = plan.steps
    if config.memory:
        steps = (build_pass_step("memory-annotate", {}), *steps)
    step_figures = {name: value for name in STEP if (value := getattr(config, name)) is not None}
    return replace(plan, steps=steps, step_figures=step_figures)


def select_split(config: RunConfig) -> str:
    """Return the configured split, or the one that suits the estimator.

    A GPU runs its kernels and its synchronous collectives in program order, which is ``linear``.
    Lower bounds use ``individual-merge``, the best that the data dependencies allow, unless
    collectives are to be serial.

    Raises:
        UsageError: Collectives are to be serial, and the split takes them out of their order.
    """
    is_serial = config.overlap == "none"
    if is_serial and config.split not in (None, LINEAR):
        raise UsageError(
            f"'overlap' none keeps collectives in the order of the program, but 'split' is "
            f"{config.split}",
            remedy=f"the split {LINEAR} does so",
        )
    if config.split is not None:
        return config.split
    return LINEAR if is_serial or _estimates_real_times(config) else "individual-merge"


def _estimates_real_times(config: RunConfig) -> bool:
    return estimators.load_estimator_class(config.estimator).measured_network


def plan_network(config: RunConfig, system: SystemSpec | None) -> SimulatedNetwork | None:
    """Return how a configuration simulates its traces on a system, or None if it does not.

    Raises:
        UsageError: There is a timeline but no simulation, or no such simulator or curves.
        HespasError: The timeline cannot be written, or the simulator cannot simulate so.
    """
    if system is None or not config.simulate:
        if config.timeline is not None:
            reason = "simulate is false" if system else "no system is given"
            raise UsageError(f"there is no timeline without a simulation: {reason}")
        if config.curves not in (None, "none"):
            from hespas.simulators.embedded.curves import load_curves

            load_curves(config.curves)  # later simulations of the traces use it by default
        return None
    if config.timeline is not None and not is_file_of_folder(config.timeline, config.output):
        check_writable_file(config.timeline)  # the run creates its own folder
    from hespas.simulators import simulator_choice  # it adds to every start-up

    choice = select_network_settings(config).build_simulator_choice()
    simulator_choice.check_simulator(choice)
    network = SimulatedNetwork(system, choice, config.timeline)
    if config.sensitivity:
        network.check_sensitivity()
    return network


def select_network_settings(config: RunConfig) -> NetworkSettings:
    """Return the network and the simulator of a configuration.

    If the estimator predicts real times, the simulation does so too by default: it uses measured
    collectives, slows down compute alongside communication, and takes the flow-level model of the
    network, or NCCL's model for collectives that span several hosts.
    """
    values: dict[str, Any] = {}
    if _estimates_real_times(config):
        node = configs.load_node(config.node or configs.DEFAULT_NODE)
        curves = node.collectives if config.curves is None else config.curves
        values = {
            "curves": curves,
            "slowdown": node.overlap_slowdown,
            "network_model": None if config.congestion else "flows",
            "between_hosts": "nccl" if find_nccl_generation(curves or "") else None,
        }
    values |= {
        name: value
        for name in NetworkSettings.model_fields
        if (value := getattr(config, name)) is not None
    }
    absent = (None, "")  # no curves are the empty string
    return NetworkSettings(**{name: value for name, value in values.items() if value not in absent})


def load_system(name: str | None) -> SystemSpec | None:
    """Load a system preset or folder; raises HespasError."""
    return configs.load_system(name) if name else None


def collect_annotate_options(config: RunConfig) -> dict[str, str | bool]:
    """Return the options of the annotate pass: the costs of kernels, and those of measurements.

    Raises:
        UsageError: The configuration sets an option of measurements, and its estimator does not
            measure.
        HespasError: The costs of kernels cannot be read.
    """
    measuring_values = {
        name: value
        for name in MEASURING
        if name in config.model_fields_set and (value := getattr(config, name)) is not None
    }
    refuse_measure_options(config.estimator, list(measuring_values))
    options: dict[str, str | bool] = {
        name.replace("_", "-"): str(value) for name, value in measuring_values.items()
    }
    if config.kernel_cost:
        options["kernel-cost"] = parse_kernel_costs(config.kernel_cost).to_text()
    return options


def build_annotate_step(
    estimator: str,
    node: str | None,
    settings: Mapping[str, object] | None,
    annotate_options: Mapping[str, str | bool] | None = None,
) -> Pass:
    """Build the pass of an estimator; raises UsageError."""
    options: dict[str, str | bool] = {"node": node} if node else {}
    options |= annotate_options or {}
    texts = {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (settings or {}).items()
    }
    estimators.find_settings(estimator, texts)  # reports wrong names as those of a setting
    cls = registry.load_pass_class(f"{estimator}-annotate")
    return build_pass(cls, {**options, **texts}, owner=estimator, noun="setting")
