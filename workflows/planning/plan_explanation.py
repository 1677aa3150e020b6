"""What a plan says about its winner: why it wins, and how to build it."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hespas.configs.kernel_families import find_kernel_family
from hespas.frontends.export.slice_mesh import is_in_device_order
from hespas.workflows.planning.layout_programs import FunctionPrograms, LayoutPrograms, LayoutRuns
from hespas.workflows.planning.layout_space import (
    ACCUMULATE,
    ATTENTION,
    LOGITS,
    MAXTEXT_LOGITS,
    MAXTEXT_RECIPES,
    PLAIN_ATTENTION,
    PRODUCTS,
    SEQUENCE,
    LayoutCandidate,
    LayoutRequest,
)
from hespas.workflows.planning.pipeline_layouts import is_pipeline, list_study_words
from hespas.workflows.planning.plan_result import (
    LayoutDifference,
    LayoutFigures,
    LayoutPlan,
    LayoutRow,
)

FAMILY_PARTS = {"product": "matrix products", "attention": "attention"}
OTHER_KERNELS = "fusions and other kernels"
WAITING = "exposed communication and bubbles"
OVERLAP = "communication alongside compute"  # counted in both, so that it is negative
DEVICE = 0  # whose collectives are timed; all devices run the same program
MIN_DIFFERENCE = 1e-3  # share of the winner's step below which a part is not listed
# MaxText's names of the axes, for ici_NAME_parallelism and dcn_NAME_parallelism.
MAXTEXT_AXES = {
    "data": "data", "fsdp": "fsdp", "context": "context", "tensor": "tensor", "expert": "expert",
}  # fmt: skip
MAXTEXT_KEYS = {
    "remat": "remat_policy", "scan": "scan_layers", ACCUMULATE: "gradient_accumulation_steps",
    SEQUENCE: "max_target_length",
}  # fmt: skip
# MaxText's key "attention", whose default leaves the kernel to MaxText, see docs/how-to/maxtext.md.
MAXTEXT_ATTENTION = {PLAIN_ATTENTION: "dot_product", "cudnn": "cudnn_flash_jax", "splash": "flash"}
# MaxText's keys of products in 8 bits, see recipes.quantised_products. MaxText has none
# of a scale for an array or for each row from the values themselves.
MAXTEXT_PRODUCTS: Mapping[str, Sequence[str]] = {
    "none": (),
    "int8": ("quantization=int8",),
    "fp8_delayed": ("quantization=fp8",),
    "fp8_static": (
        "quantization=fp8_full", "use_qwix_quantization=true",
        "weight_quantization_calibration_method=fixed,-224,224",
        "act_quantization_calibration_method=fixed,-224,224",
    ),
}  # fmt: skip


def explain_plan(
    plan: LayoutPlan,
    request: LayoutRequest,
    runs: LayoutRuns,
    programs: LayoutPrograms,
) -> LayoutPlan:
    """Add to a plan why its winner wins, and how to build it.

    Args:
        plan: The plan.
        request: What it searched.
        runs: The runs of its layouts.
        programs: The programs of the layouts.

    Raises:
        HespasError: The program of a layout cannot be estimated again.
    """
    is_in_process = isinstance(programs, FunctionPrograms)  # which no command can import
    winner = plan.winner
    if winner is None:
        return plan
    second = next((row for row in plan.rows[1:] if row.rank == 2), None)
    differences = _compare_rows(winner, second, runs) if second else ()
    if is_pipeline(winner.candidate):
        assert winner.figures is not None
        words = list_study_words(runs, winner.candidate, winner.figures.form)
        return replace(plan, differences=differences, export_command=shlex.join(words))
    return replace(
        plan,
        differences=differences,
        export_command="" if is_in_process else format_export_command(request, winner),
        hybrid_mesh=format_hybrid_mesh(winner.candidate),
        maxtext_flags=list_maxtext_flags(request, winner),
        partition_specs=programs.list_partition_specs(winner.candidate),
        logical_axes=programs.rules.describe_layout(winner.candidate.mesh)
        if programs.rules
        else {},
    )


def format_export_command(request: LayoutRequest, row: LayoutRow) -> str:
    """Format the command that exports the program of a layout."""
    mesh = ",".join(f"{axis}={size}" for axis, size in row.candidate.mesh.items())
    words = ["hespas", "export", request.program, "--mesh", mesh]
    flag = "--static" if request.spec_file else "--set"
    if request.spec_file:
        words += ["--spec", request.spec_file]
    if not is_in_device_order(row.candidate.mesh, row.candidate.dcn):
        parts = [f"{axis}={part}" for axis, part in row.candidate.dcn.items() if part > 1]
        words += ["--dcn", ",".join(parts)]
    for name, value in row.candidate.options.items():
        words += [flag, f"{name}={value}"]
    return shlex.join(words)


def list_maxtext_flags(request: LayoutRequest, row: LayoutRow) -> list[str]:
    """List the keys of MaxText that make the layout of a row; none for programs it does not have.

    MaxText states the sizes of axes within a slice (ici) and between slices (dcn).
    """
    options = row.candidate.options
    attention = MAXTEXT_ATTENTION.get(options.get(ATTENTION, PLAIN_ATTENTION))
    products = MAXTEXT_PRODUCTS.get(options.get(PRODUCTS, "none"))
    if request.program not in MAXTEXT_RECIPES or options.get(LOGITS) != MAXTEXT_LOGITS:
        return []
    if attention is None or products is None:
        return []
    flags = []  # MaxText's own default gives fsdp the devices that are left
    parts = divide_axes(row.candidate, request.devices // request.slices)
    for axis, (inside, between) in parts.items():
        name = MAXTEXT_AXES[axis]
        if inside > 1 or axis == "fsdp":
            flags.append(f"ici_{name}_parallelism={inside}")
        if between > 1:
            flags.append(f"dcn_{name}_parallelism={between}")
    step_samples = request.count_samples(options.get(SEQUENCE))
    samples = step_samples / request.devices / int(options.get(ACCUMULATE, "1"))
    flags.append(f"per_device_batch_size={samples:g}")
    flags += [f"{key}={options[n]}" for n, key in MAXTEXT_KEYS.items() if n in options]
    return [*flags, f"attention={attention}", *products]


def divide_axes(candidate: LayoutCandidate, slice_devices: int) -> dict[str, tuple[int, int]]:
    """Divide each axis of a layout into its sizes within slices and between them.

    Where the layout states no parts, the last axes lie within slices. One that does not divide
    evenly lies between them as a whole.
    """
    mesh, dcn = candidate.mesh, candidate.dcn
    if dcn:
        return {axis: (size // dcn.get(axis, 1), dcn.get(axis, 1)) for axis, size in mesh.items()}
    parts, left = {}, slice_devices
    for axis, size in reversed(list(mesh.items())):
        inside = size if left % size == 0 else left if size % left == 0 else 1
        parts[axis] = (inside, size // inside)
        left //= inside
    return dict(reversed(parts.items()))


def format_hybrid_mesh(candidate: LayoutCandidate) -> str:
    """Format the call of JAX that makes the mesh of a layout; "" for devices in order."""
    mesh, dcn = candidate.mesh, candidate.dcn
    if is_in_device_order(mesh, dcn):
        return ""
    within = tuple(size // dcn.get(axis, 1) for axis, size in mesh.items())
    between = tuple(dcn.get(axis, 1) for axis in mesh)
    devices = f"jax.experimental.mesh_utils.create_hybrid_device_mesh({within}, {between})"
    return f"jax.sharding.Mesh({devices}, {tuple(mesh)})"


def _compare_rows(winner: LayoutRow, second: LayoutRow, runs: LayoutRuns) -> list[LayoutDifference]:
    """Compare the parts of the steps of two layouts with ranks, which have figures of one form."""
    has_pipeline = is_pipeline(winner.candidate) or is_pipeline(second.candidate)
    first_parts, second_parts = (
        _time_coarse_parts(figures) if has_pipeline else _time_step_parts(figures, runs)
        for figures in (winner.figures, second.figures)
        if figures is not None
    )
    differences = [
        LayoutDifference(part, first_parts.get(part, 0.0), second_parts.get(part, 0.0))
        for part in first_parts | second_parts
    ]
    step_s = winner.figures.step_time_s if winner.figures else 0.0
    differences = [d for d in differences if abs(d.next_s - d.winner_s) > MIN_DIFFERENCE * step_s]
    return sorted(differences, key=lambda d: -abs(d.next_s - d.winner_s))


def _time_coarse_parts(figures: LayoutFigures) -> dict[str, float]:
    """Time the parts of a step that layouts with and without stages both have."""
    compute_s = figures.get("compute_s") or 0.0
    return {"compute": compute_s, WAITING: figures.step_time_s - compute_s}


def _time_step_parts(figures: LayoutFigures, runs: LayoutRuns) -> dict[str, float]:
    """Time the parts of a step: kernels of each kind, and the collectives of each kind.

    A fusion of XLA may be a product, so that the class of a kernel tells its part. Estimators
    without classes tell what limits a kernel.
    """
    from hespas.workflows import api

    options = runs.make_config(figures.form).model_dump(exclude_unset=True)
    estimate = api.estimate(figures.program, **options, memory=False)
    parts: defaultdict[str, float] = defaultdict(float)
    classes = estimate.summary.list_time_shares("class")
    for name, time_ns in classes:
        parts[FAMILY_PARTS.get(find_kernel_family(name), OTHER_KERNELS)] += time_ns * 1e-9
    if not classes:
        for limit, time_s in estimate.breakdown.bounds.items():
            parts[f"kernels bound by {limit}"] += time_s
    simulation = estimate.summary.simulation
    for record in simulation.result.comms if simulation else ():
        if DEVICE in record.ranks:
            time_ns = record.finish_ns - record.ready_ns
            parts[f"{record.kind} of {len(record.ranks)}"] += time_ns * 1e-9
    parts[OVERLAP] = figures.step_time_s - sum(parts.values())
    return parts
