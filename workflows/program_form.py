"""The form in which a run estimates a program: compiled by XLA, fused by hespas, or as it is.

A program as a framework exports it is not what a GPU runs. By default, estimators of real times
take the program that XLA makes of it for the node. The choice needs the program, so that a plan
holds a request, and its passes are known when the program has been read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attr_codec import read_program_facts
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import clone_module, ir, replace_module_body
from hespas.dialects.op_kinds import has_fusions
from hespas.passes import registry
from hespas.passes.base import Pass, build_pass
from hespas.passes.compile.compiler_process import DEVICES_PER_HOST
from hespas.passes.compile.hlo_origin import SCHEDULED_BY
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.fusible_ops import has_fusible_pair

XLA, FUSE, AS_IS = "xla", "fuse", "as-is"
SCHEDULED_OPTIONS = {"stage": "scheduled", "async-collectives": "keep"}
"""The options of ``xla-optimize`` for the program that runs, with the overlap that XLA plans."""
_FUSED_INSTEAD = (
    "hespas fuses the program, and what XLA would add is missing: its order of kernels, "
    "collectives alongside compute, combined collectives, and calls of libraries"
)


@dataclass(frozen=True)
class FormRequest:
    """The form that a run asks for.

    Attributes:
        form: ``xla``, ``fuse`` or ``as-is``; None for the default.
        node: The node, as in a run's configuration; None for the default node.
        estimates_real_times: Whether the estimator predicts real times.
        host_devices: The maximum number of devices of a host.
    """

    form: str | None = AS_IS
    node: str | None = None
    estimates_real_times: bool = False
    host_devices: int = DEVICES_PER_HOST

    @functools.cached_property
    def target_node(self) -> NodeSpec:
        """The node that the program runs on; raises HespasError."""
        return configs.load_node(self.node or configs.DEFAULT_NODE)


@dataclass(frozen=True)
class ProgramForm:
    """A form of a program.

    Attributes:
        steps: The passes that make it.
        warning: What is lost, if it is second best.
        fallback: The form to take if these passes fail; None if that is an error.
    """

    steps: tuple[Pass, ...]
    description: str
    warning: str = ""
    fallback: ProgramForm | None = None

    def fall_back(self, error: HespasError) -> ProgramForm:
        """Return the fallback, with a warning that says why; raises ``error`` if there is none."""
        if self.fallback is None or isinstance(error, UsageError):
            raise error
        return replace(self.fallback, warning=f"{error.message}: {_FUSED_INSTEAD}")


@dataclass(frozen=True)
class ProgramState:
    """What has been done to a program that was read.

    Attributes:
        optimisation: What XLA has done to it; "" if it has not optimised it.
        is_prepared: Whether a pass of hespas has prepared it.
        has_fusible_pair: Whether it has ops that XLA would fuse.
    """

    optimisation: str
    is_prepared: bool
    has_fusible_pair: bool


def inspect_program(module: ir.Module) -> ProgramState:
    """Find out what has been done to a program."""
    return ProgramState(
        describe_optimisation(module),
        TargetAttr.read_from_op(module.operation) is not None,
        has_fusible_pair(module),
    )


def choose_program_form(state: ProgramState, request: FormRequest) -> ProgramForm:
    """Choose the form of a program."""
    form, warning = request.form, ""
    if form is None:
        form, warning = _choose_default_form(state, request)
    if form == XLA and not state.optimisation:
        compiled = _build_compiled_form(request)
        return replace(compiled, fallback=_build_fused_form()) if request.form is None else compiled
    if form == FUSE:
        return _build_fused_form(warning)
    return ProgramForm((), ", ".join(filter(None, ("as it is", state.optimisation))))


def describe_optimisation(module: ir.Module) -> str:
    """Describe what XLA has done to a program; "" if it has not optimised it."""
    facts = read_program_facts(module)
    if OPTIMISED_FOR in facts:
        return f"optimised by XLA for {facts[OPTIMISED_FOR]}"
    if SCHEDULED_BY in facts:
        return f"scheduled by {facts[SCHEDULED_BY]}"
    return "with XLA's fusions" if has_fusions(module) else ""


def _choose_default_form(state: ProgramState, request: FormRequest) -> tuple[str, str]:
    """Choose a form for estimators of real times; return it with a warning.

    Programs that XLA or hespas has treated, or that have nothing to fuse, and those for devices of
    other vendors stay as they are.
    """
    is_raw = state.has_fusible_pair and not state.is_prepared and not state.optimisation
    if not request.estimates_real_times or not is_raw:
        return AS_IS, ""
    if request.target_node.vendor != "NVIDIA":
        return AS_IS, ""
    reason = find_compiler_problem(request.target_node.name)
    return (FUSE, f"{reason}: {_FUSED_INSTEAD}") if reason else (XLA, "")


def find_compiler_problem(node: str) -> str:
    """Return why XLA cannot compile for a GPU of a node preset, or ""."""
    from hespas.configs import compile_targets
    from hespas.dialects.xla import get_compiler_library

    if node not in compile_targets.list_target_presets():
        return f"XLA's GPU compiler has no target for {node}"
    try:
        get_compiler_library("gpu")
    except HespasError as error:
        return f"{error.message} ({error.remedy})"
    return ""


def run_fallible_steps(
    module: ir.Module, form: ProgramForm, run_step: Callable[[Pass], None]
) -> ProgramForm:
    """Run the passes of a form that has a fallback.

    If they fail, the ops of the module become what they were.

    Returns:
        The form whose passes are still to be run: the fallback, or the form without passes.

    Raises:
        HespasError: A pass fails, and there is no fallback.
    """
    if form.fallback is None:
        return form
    original = clone_module(module)
    try:
        for step in form.steps:
            run_step(step)
    except HespasError as error:
        fallback = form.fall_back(error)
        replace_module_body(module, original)
        return fallback
    return replace(form, steps=(), fallback=None)


def _build_fused_form(warning: str = "") -> ProgramForm:
    return ProgramForm((_build_step("fuse", {}),), "fused by hespas", warning)


def _build_compiled_form(request: FormRequest) -> ProgramForm:
    target = request.target_node.name
    options = {"target": target, **SCHEDULED_OPTIONS, "devices-per-host": str(request.host_devices)}
    return ProgramForm(
        (_build_step("xla-optimize", options),),
        f"compiled by XLA for {target}: scheduled, with asynchronous collectives",
    )


def _build_step(name: str, options: dict[str, str]) -> Pass:
    return build_pass(registry.load_pass_class(name), dict(options))
