"""The forms of a study's programs, and the choice of a system for a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilerName

OPTIMISED, SCHEDULED = "optimised", "scheduled"
BY_XLA = (OPTIMISED, SCHEDULED)
FORMS = {
    OPTIMISED: "by XLA for the node: its fusions and library calls, collectives one by one",
    SCHEDULED: "the same in XLA's order, collectives alongside compute where XLA puts them",
    "fused": "the kernels that XLA would make, by hespas (--fuse of hespas run)",
    "lowered": "as JAX lowers it, each op a kernel",
}
# The kernel of fused attention of JAX for the devices of each compiler, an option of recipes.
FUSED_ATTENTION: Mapping[CompilerName, str] = {"gpu": "cudnn", "tpu": "splash"}
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

    own = configs.list_systems_of_node(node)
    family_ranks = {name: rank for rank, name in enumerate(system_families.list_family_presets())}
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
            family_ranks.get(name, len(family_ranks)),
            name,
        )
        for name in names or own
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
