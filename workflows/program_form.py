"""The form in which a run estimates a program: compiled by XLA, fused by hespas, or as it is.

A program as a framework exports it is not what a device runs. By default, estimators of real times
take the program that XLA makes of it for the node, whatever ops it has: XLA changes single ops too.
The choice needs the program, so that a plan holds a request, and its passes are known when the
program has been read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import GROUPED_PRODUCTS, TargetAttr
from hespas.dialects.mlir import clone_module, ir, replace_module_body
from hespas.dialects.op_kinds import has_fusions
from hespas.dialects.program_facts import read_program_facts
from hespas.dialects.xla import CompilerName, get_compiler_library
from hespas.passes import registry
from hespas.passes.base import Pass, build_pass
from hespas.passes.compile.compiler_process import DEVICES_PER_HOST
from hespas.passes.compile.hlo_origin import PARTITIONED_BY, SCHEDULED_BY
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR, XlaOptimizePass
from hespas.passes.pipeline import parse_options
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.check_input import check_input_form
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.followed_flags import check_flag_options, follow_flags, list_flags
from hespas.workflows.fusible_ops import has_fusible_pair, list_rewritten_ops

XLA, FUSE, AS_IS = "xla", "fuse", "as-is"
ASYNC_OPTION = "async-collectives"
SCHEDULED_OPTIONS = {"stage": "scheduled", ASYNC_OPTION: "keep"}
"""The options of ``xla-optimize`` for the program that runs, with the overlap that XLA plans."""
OVERLAP_OPTIONS = {
    "xla": {ASYNC_OPTION: "keep"},
    "latency-hiding": {ASYNC_OPTION: "hide"},
    "none": {ASYNC_OPTION: "remove"},
}
"""The options of ``xla-optimize`` by the overlap that a run asks for."""
_FUSED_INSTEAD = (
    "hespas fuses the program, and what XLA would add is missing: its order of kernels, combined "
    "collectives, calls of libraries, and collectives alongside compute, but for GPUs of data "
    "centres from Hopper on"
)
_TAKEN_INSTEAD = "the program is taken as it is, and what XLA would make of it is missing"
_COMPILERS: dict[str, CompilerName] = {"NVIDIA": "gpu", "Google": "tpu"}  # by vendor of the node


@dataclass(frozen=True)
class FormRequest:
    """The form that a run asks for.

    Attributes:
        form: ``xla``, ``fuse`` or ``as-is``; None for the default.
        node: The node, as in a run's configuration; None for the default node.
        estimates_real_times: Whether the estimator predicts real times.
        host_devices: The maximum number of devices of a host.
        otherwise: The form by default where XLA is not asked; ``fuse`` or ``as-is``.
        xla_options: Options of ``xla-optimize`` as text; None if there are none.
        overlap: A key of ``OVERLAP_OPTIONS``; None for the default.
    """

    form: str | None = AS_IS
    node: str | None = None
    estimates_real_times: bool = False
    host_devices: int = DEVICES_PER_HOST
    otherwise: str = AS_IS
    xla_options: str | None = None
    overlap: str | None = None

    @property
    def compile_flags(self) -> str:
        """The options of a run for XLA that ``fuse`` does not follow, as a message names them."""
        if self.form == FUSE:
            return ""
        flags = {"'xla_optimize'": self.xla_options, "'overlap'": self.overlap}
        return " and ".join(name for name, value in flags.items() if value is not None)

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
        return self.fallback.warn_of(_explain_error(error))

    def warn_of(self, reason: str) -> ProgramForm:
        """Return the form with a warning that begins with the reason for it."""
        return replace(self, warning=f"{reason}: {self.warning}")


@dataclass(frozen=True)
class ProgramState:
    """What has been done to a program that was read.

    Attributes:
        optimisation: What XLA has done to it; "" if it has not optimised it.
        is_prepared: Whether a pass of hespas has prepared it.
        has_fusible_pair: Whether it has ops that XLA would fuse.
        rewritten_ops: The other ops that XLA would change, with what it makes of them.
        partitioner: The compiler of XLA that has partitioned it, and not scheduled it; "" if none.
        has_grouped_kernels: Whether its framework has kernels for its ragged products, unlike XLA.
    """

    optimisation: str
    is_prepared: bool
    has_fusible_pair: bool
    rewritten_ops: tuple[str, ...] = ()
    partitioner: str = ""
    has_grouped_kernels: bool = False

    @property
    def is_raw(self) -> bool:
        """Whether neither XLA nor hespas has treated the program."""
        return not self.is_prepared and not self.optimisation and not self.partitioner


def inspect_program(module: ir.Module) -> ProgramState:
    """Find out what has been done to a program."""
    facts = read_program_facts(module)
    return ProgramState(
        describe_optimisation(module),
        TargetAttr.read_from_op(module.operation) is not None,
        has_fusible_pair(module),
        list_rewritten_ops(module),
        str(facts.get(PARTITIONED_BY, "")),
        GROUPED_PRODUCTS in facts,
    )


def choose_program_form(state: ProgramState, request: FormRequest) -> ProgramForm:
    """Choose the form of a program.

    Raises:
        UsageError: There are options for XLA, and XLA does not compile the program.
        HespasError: There is no such node.
    """
    form = _choose_form(state, request)
    if not request.compile_flags:
        return form
    if not isinstance(next(iter(form.steps), None), XlaOptimizePass):
        if form.warning and not state.optimisation:  # the compiler is missing
            return _build_compiled_form(request)
        raise UsageError(
            f"{request.compile_flags}: this is for a program that XLA compiles, and this one is "
            f"taken {form.description}",
            remedy="" if state.optimisation else _suggest_compiled_form(request),
        )
    return replace(form, fallback=None)


def _suggest_compiled_form(request: FormRequest) -> str:
    is_known = request.target_node.vendor in _COMPILERS
    return "the form xla compiles it" if is_known else ""


def _choose_form(state: ProgramState, request: FormRequest) -> ProgramForm:
    if request.form == XLA:
        return _build_as_is_form(state) if state.optimisation else _build_compiled_form(request)
    if request.form == FUSE:
        return _build_fused_form(state, request)
    if request.form == AS_IS or not state.is_raw:
        return _build_as_is_form(state)
    return _choose_default_form(state, request)


def check_compile_options(request: FormRequest) -> None:
    """Check the options for XLA before the program is read.

    Raises:
        UsageError: The form does not compile, or an option of ``xla-optimize`` is wrong.
    """
    if request.form == FUSE and request.xla_options is not None:
        check_flag_options(request.xla_options)
    if not request.compile_flags:
        return
    if request.form == AS_IS:
        raise UsageError(
            f"{request.compile_flags}: this is for a program that XLA compiles, and 'form' is "
            f"{request.form}",
            remedy=_suggest_compiled_form(request),
        )
    build_pass_step(XlaOptimizePass.name, collect_compile_options(request))


def collect_compile_options(request: FormRequest) -> dict[str, str | bool]:
    """Return the options of ``xla-optimize`` that a run asks for; raises UsageError."""
    options = parse_options(request.xla_options or "")
    overlap = OVERLAP_OPTIONS[request.overlap] if request.overlap else {}
    for name, value in overlap.items():
        if options.get(name, value) != value:
            raise UsageError(
                f"'overlap' {request.overlap} is {name}={value}, but 'xla_optimize' has "
                f"{name}={options[name]}"
            )
    if "target" in options:
        raise UsageError("'xla_optimize' has a target, which is that of the node")
    return {**options, **overlap}


def describe_optimisation(module: ir.Module) -> str:
    """Describe what XLA has done to a program; "" if it has not optimised it."""
    facts = read_program_facts(module)
    if OPTIMISED_FOR in facts:
        return f"optimised by XLA for {facts[OPTIMISED_FOR]}"
    if SCHEDULED_BY in facts:
        return f"scheduled by {facts[SCHEDULED_BY]}"
    return "with XLA's fusions" if has_fusions(module) else ""


def _choose_default_form(state: ProgramState, request: FormRequest) -> ProgramForm:
    """Choose the form of a program that neither XLA nor hespas has treated.

    Estimators of real times take what XLA makes of it, where XLA can compile for the node. If it
    cannot, the fusion of hespas is second best: ops that no compiler has fused take several times
    as long, on TPUs too.
    """
    fused = _build_fused_form(state, request)
    plain = fused if request.otherwise == FUSE else _build_as_is_form(state)
    compiler = _COMPILERS.get(request.target_node.vendor)
    if compiler is None or not request.estimates_real_times:
        return plain
    fuses = state.has_fusible_pair or (compiler == "gpu" and bool(state.rewritten_ops))
    second = _add_loss(fused if fuses else plain, state)
    reason = find_compiler_problem(request.target_node, compiler)
    if not reason:
        return replace(_build_compiled_form(request), fallback=second)
    return second.warn_of(reason) if fuses or state.rewritten_ops else plain


def _add_loss(form: ProgramForm, state: ProgramState) -> ProgramForm:
    """Say in the warning of a form that is second best which ops it concerns."""
    loss = _FUSED_INSTEAD if form.steps else _TAKEN_INSTEAD
    if state.rewritten_ops:
        loss = f"{loss}; it matters for {', '.join(state.rewritten_ops)}"
    return replace(form, warning=loss)


def find_compiler_problem(node: NodeSpec, compiler: CompilerName) -> str:
    """Return why XLA cannot compile for a node, or ""."""
    from hespas.configs import compile_targets

    if not compile_targets.find_node_target(node):
        return f"XLA's {compiler.upper()} compiler has no target for {node.name}"
    try:
        get_compiler_library(compiler)
    except HespasError as error:
        return _explain_error(error)
    return ""


def _explain_error(error: HespasError) -> str:
    """Return the message of an error, with its remedy if it has one."""
    return f"{error.message} ({error.remedy})" if error.remedy else error.message


def run_fallible_steps(
    module: ir.Module, form: ProgramForm, run_step: Callable[[Pass], object]
) -> ProgramForm:
    """Run the passes of a form that has a fallback.

    If they fail, the ops of the module become what they were. What no form can be made of is an
    error, not a reason for the fallback.

    Returns:
        The form whose passes are still to be run: the fallback, or the form without passes.

    Raises:
        HespasError: The module cannot be estimated, or a pass fails and there is no fallback.
    """
    if form.fallback is None:
        return form
    check_input_form(collect_census(module))
    original = clone_module(module)
    try:
        for step in form.steps:
            run_step(step)
    except HespasError as error:
        fallback = form.fall_back(error)
        replace_module_body(module, original)
        return fallback
    return replace(form, steps=(), fallback=None)


def _build_as_is_form(state: ProgramState) -> ProgramForm:
    partitioning = f"partitioned by {state.partitioner}" if state.partitioner else ""
    return ProgramForm(
        (), ", ".join(filter(None, ("as it is", state.optimisation or partitioning)))
    )


def _build_fused_form(state: ProgramState, request: FormRequest) -> ProgramForm:
    options: dict[str, str | bool] = {**choose_fusion_options(request.target_node)}
    if state.has_grouped_kernels:
        options["ragged"] = "grouped"
    description, warning = "fused by hespas", ""
    if request.form == FUSE and request.xla_options is not None:
        flags, stated = list_flags(request.xla_options)
        options |= follow_flags(flags)[0]
        description += f"; xla-optimize: {request.xla_options}"
        if others := follow_flags(stated)[1]:
            warning = f"the form {FUSE} follows flags about collectives, not {' '.join(others)}"
    if request.overlap and (request.overlap != "xla" or "overlap" not in options):
        options["overlap"] = request.overlap
    return ProgramForm((build_pass_step("fuse", options),), description, warning)


def choose_fusion_options(node: NodeSpec) -> dict[str, str]:
    """Choose the options of ``fuse`` that make what the compiler of a node makes.

    XLA's model rates the kernels for the target that it would compile for.

    XLA:GPU has kernels that widen an operand from Ampere on, which is the first with bf16, and from
    f8E4M3 from Ada on, which is the first with fp8. It has no ragged products, and its libraries
    read matrices and evenly padded images; compilers for others have none of these limits. XLA:TPU
    runs copies between device and host alongside kernels.
    """
    from hespas.configs import compile_targets

    types = node.peaks_flops.get("matrix", {})
    is_gpu = node.vendor in ("NVIDIA", "AMD") or not node.vendor
    if not is_gpu:
        options = {"ragged": "grouped", "operands": "any"}
        return options | ({"overlap": "transfers"} if node.vendor == "Google" else {})
    options = {}
    target = compile_targets.find_node_target(node)
    if node.vendor == "NVIDIA" and target:
        options["target"] = target
    if types and not any(name.startswith("f8") for name in types):
        options["conversions"] = "no-f8E4M3" if "bf16" in types else "none"
    return options


def _build_compiled_form(request: FormRequest) -> ProgramForm:
    from hespas.configs import compile_targets

    node = request.target_node
    target = compile_targets.find_node_target(node) or node.name
    options: dict[str, str | bool] = {"target": target, **SCHEDULED_OPTIONS}
    if target in compile_targets.list_target_presets():
        nearest = compile_targets.load_compile_target(target).nearest
    else:
        nearest = ""  # of an unknown target, the pass says which are known
    if node.vendor == "NVIDIA":
        options["devices-per-host"] = str(request.host_devices)
    name = target if target == node.name else f"{target}, the nearest target to {node.name}"
    if nearest:
        name += f" (XLA has no description of it; the nearest is that of {nearest})"
    options |= collect_compile_options(request)
    order = "scheduled" if options["stage"] == "scheduled" else "not scheduled"
    kind = "serial" if options[ASYNC_OPTION] == "remove" else "asynchronous"
    option_text = f"; xla-optimize: {request.xla_options}" if request.xla_options else ""
    return ProgramForm(
        (build_pass_step(XlaOptimizePass.name, options),),
        f"compiled by XLA for {name}: {order}, with {kind} collectives{option_text}",
    )


def build_pass_step(name: str, options: dict[str, str | bool]) -> Pass:
    """Build a pass from options as text; raises UsageError."""
    return build_pass(registry.load_pass_class(name), options)
