"""The forms of a study's programs, and the choice of a system for a node."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hespas.support.errors import HespasError, UsageError

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilerName
    from hespas.workflows.run_config import RunConfig, RunOptions

OPTIMISED, SCHEDULED, FUSED = "optimised", "scheduled", "fused"
BY_XLA = (OPTIMISED, SCHEDULED)
Form = Literal["optimised", "scheduled", "fused", "lowered"]
FORMS: Mapping[Form, str] = {
    OPTIMISED: "by XLA for the node: its fusions and library calls, collectives one by one",
    SCHEDULED: "the same in XLA's order, collectives alongside compute where XLA puts them",
    FUSED: "the kernels that XLA would make, by hespas (--fuse of hespas run)",
    "lowered": "as JAX lowers it, each op a kernel",
}
FORM_HELP = f"form of the programs; {'; '.join(f'{form}: {text}' for form, text in FORMS.items())}"
# The kernel of fused attention of JAX for the devices of each compiler, an option of recipes. For
# other devices the call of cuDNN stands for the kernel that they have.
FUSED_ATTENTION: Mapping[CompilerName | None, str] = {
    "gpu": "cudnn", "tpu": "splash", None: "cudnn",
}  # fmt: skip
STAND_IN = f"the call of {FUSED_ATTENTION[None]} stands for the fused attention of {{node}}"
OTHER_WAY = "--form fused makes the kernels that XLA would make, without it"


def choose_xla_target(form: str, node: str) -> str:
    """Return the target that XLA optimises for, or "" if the form is not optimised.

    Raises:
        HespasError: XLA has no target for the node, or its compiler is not installed.
    """
    if form not in BY_XLA:
        return ""
    from hespas.dialects.xla import get_compiler_library

    compiler = find_compiler(node)
    if compiler is None:
        raise HespasError(f"XLA has no target for node {node}", remedy=OTHER_WAY)
    try:
        get_compiler_library(compiler)
    except HespasError as error:
        raise HespasError(error.message, remedy=f"{error.remedy}, or {OTHER_WAY}") from None
    return node


def choose_form(form: Form | None, node: str) -> tuple[Form, str]:
    """Choose the form of a program for a node where nobody has asked for one.

    Returns:
        The form, and "" or why XLA does not compile the program, which hespas then fuses.

    Raises:
        HespasError: XLA cannot make the form that somebody has asked for.
    """
    try:
        choose_xla_target(form or SCHEDULED, node)
    except HespasError as error:
        if form is not None:
            raise
        return FUSED, error.message
    return form or SCHEDULED, ""


def check_compile_options(options: RunOptions, form: str) -> None:
    """Check the options of a compilation for programs of one form.

    Raises:
        UsageError: The form has no use for them, or they contradict each other.
    """
    if options.xla_optimize and form not in (*BY_XLA, FUSED):
        raise UsageError(f"--xla-optimize has no use for --form {form}")
    if options.overlap and form not in (SCHEDULED, FUSED):
        raise UsageError(
            f"--overlap has no use for --form {form}",
            remedy=f"it needs --form {SCHEDULED} or {FUSED}",
        )
    format_compile_options(options)


def check_run_options(
    options: RunOptions, form: str, node: str | None = None, system: str | None = None
) -> None:
    """Check options of estimates before programs are made; raises HespasError."""
    from hespas.workflows.run_plan import build_run_plan

    check_compile_options(options, form)
    build_run_plan(make_run_config(options, form, mlir="-", node=node, system=system))


def format_compile_options(options: RunOptions, *more: str) -> str:
    """Format the options of the pass xla-optimize, with others before them; raises UsageError."""
    from hespas.workflows.program_form import OVERLAP_OPTIONS, FormRequest, collect_compile_options

    collect_compile_options(
        FormRequest(xla_options=options.xla_optimize, overlap=options.overlap)
    )  # it checks them
    overlap = OVERLAP_OPTIONS[options.overlap] if options.overlap else {}
    texts = (*more, options.xla_optimize, *(f"{name}={value}" for name, value in overlap.items()))
    return ",".join(filter(None, texts))


def make_run_config(options: RunOptions, form: str, **inputs: Any) -> RunConfig:
    """Make the run that estimates a program in a form.

    A program of XLA has been compiled with the options for it, which a run of it can take no more.
    One that hespas fuses follows them.
    """
    from hespas.workflows.program_form import AS_IS, FUSE
    from hespas.workflows.run_config import COMPILE_OPTIONS, RunConfig

    values: dict[str, Any] = {"form": FUSE if form == FUSED else AS_IS}
    done = set[str]() if form == FUSED else set(COMPILE_OPTIONS)
    if options.overlap == "none":
        values["split"] = "linear"
    values |= options.model_dump(exclude_defaults=True, exclude=done) | inputs
    return RunConfig(**{name: value for name, value in values.items() if value is not None})


def find_compiler(node: str) -> CompilerName | None:
    """Return which of XLA's compilers has a target for a node; None if none has."""
    from hespas.configs import compile_targets

    if node not in compile_targets.list_target_presets():
        return None
    return "gpu" if compile_targets.load_compile_target(node).tpu is None else "tpu"


def choose_system(node: str, devices: int, patterns: Sequence[str]) -> str | None:
    """Choose the system for a number of devices; None for a single device.

    Candidates match ``patterns``, or are the presets of the node if there are no patterns. Systems
    of the node come before others, then those with fewer dimensions, then those of families in the
    order of their file, which has the vendor's own clusters before those of clouds.

    Raises:
        UsageError: No candidate has that number of devices.
    """
    if devices == 1:
        return None
    from hespas import configs
    from hespas.configs import system_families
    from hespas.configs.node_spec import CORES
    from hespas.workflows.sweep import sweep_grid

    of_size = system_families.list_presets_of_size(devices, node)
    own = {*configs.list_systems_of_node(node), *of_size}
    names = [
        name
        for pattern in patterns
        for name in (
            sweep_grid.find_systems(pattern) if sweep_grid.is_pattern(pattern) else [pattern]
        )
    ]
    candidates = [
        (
            name not in own,
            len(system.npus_count),
            system_families.get_family_rank(name),
            name,
        )
        for name in {*(names or own), *match_family_systems(devices, patterns)}
        if (system := configs.load_system(name)).device_count == devices
    ]
    if candidates:
        return min(candidates)[-1]
    whose = f"like {', '.join(patterns)}" if patterns else f"of node {node}"
    sizes = sorted({configs.load_system(name).device_count for name in names or own})
    have = f" (they have {', '.join(map(str, sizes))})" if sizes else ""
    remedy = "name others by --system, or make one with `hespas presets new`"
    if node in CORES:
        remedy += f"; the systems of cores are those of --node {CORES[node]}"
    raise UsageError(f"no system {whose} has {devices} devices{have}", remedy=remedy)


def match_family_systems(devices: int, patterns: Sequence[str]) -> list[str]:
    """List the systems of a size that follow from families and match a pattern."""
    from hespas.configs import system_families

    return [
        name
        for name in (system_families.list_presets_of_size(devices) if patterns else ())
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]
