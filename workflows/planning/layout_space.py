"""The space of layouts that a plan searches: meshes of the devices, and options of the program.

Every layout does the same step: the global batch is fixed, and a layout divides it into the batch
shards of its mesh, the microbatches that are accumulated, and the sequences of each microbatch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import Field
from pydantic.dataclasses import dataclass as options_record

from hespas.frontends.export.program_source import DECODERS
from hespas.frontends.export.slice_mesh import list_slice_divisions
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import format_count
from hespas.workflows.run_config import STRICT, Count, Flag, PoolOptions, RunOptions, Systems

BATCH, ACCUMULATE, SEQUENCE, ATTENTION = "batch", "accumulate", "sequence", "attention"
LAYERS, REMAT, PRODUCTS = "layers", "remat", "products"
PLAIN_ATTENTION = "dot_product"  # the attention of recipes that no kernel fuses
GLOBAL_BATCH = "global_batch"  # of a program that divides the samples of a step itself
DERIVED_OPTIONS = (BATCH, ACCUMULATE)  # they follow from the global batch and the mesh
# The values of options that a request leaves open; those with several values are searched.
# Sequence parallelism changes nothing without tensor parallelism, and takes less memory with it.
OPEN_OPTIONS: Mapping[str, tuple[str, ...]] = {
    REMAT: ("none", "minimal", "save_qkv_proj", "full"),
    "scan": ("true",),
    "sequence_parallel": ("true",),
}
# MaxText, which has the models of all decoders, computes logits in the type of activations, and the
# loss in f32 (logits_dot_in_fp32 and cast_logits_to_fp32 of its configs/base.yml). So does a plan.
LOGITS = "logits_dtype"
MAXTEXT_LOGITS = "bf16"
FUSED_REMAT = "minimal_flash"  # keeps what a kernel of fused attention hands to its gradient
OPEN_AXES: Mapping[str, tuple[int, ...]] = {"context": (1,)}
"""The sizes of mesh axes that a request leaves open; other axes take every divisor. The kernels of
fused attention need whole sequences, so that ``context`` is searched only if it is requested."""


@dataclass(frozen=True)
class LayoutRequest:
    """What is asked of a plan.

    Attributes:
        program: A recipe, ``module:function`` or ``FILE.py[:function]``, as of ``hespas export``.
        node: The type of device.
        devices: The number of devices.
        global_batch: Samples of a step over all devices: sequences, or images. None for a function
            whose arrays have the whole batch, of which it is not stated.
        axes: The sizes to try of mesh axes.
        options: The values to try of options of the program.
        attention: The fused attention of the node; "" if it has none.
        spec_file: The specification of a plain function, as of ``hespas export``; "" for a recipe.
        global_tokens: Tokens of a step over all devices, instead of ``global_batch``.
        dcn: The parts of axes between slices to try, and every one of axes that it does not name;
            None for the first axes of each mesh between slices.
        slices: The number of slices: of TPU slices, or of hosts.
    """

    program: str
    node: str
    devices: int
    global_batch: int | None = None
    axes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    attention: str = ""
    spec_file: str = ""
    global_tokens: int | None = None
    dcn: Mapping[str, Sequence[int]] | None = None
    slices: int = 1

    def count_samples(self, sequence: str | None) -> int:
        """Return the samples of a step, for sequences of so many tokens.

        Raises:
            UsageError: The batch is not given, or is no whole number of sequences.
        """
        if (self.global_batch is None) == (self.global_tokens is None):
            times = "not given" if self.global_batch is None else "given twice"
            raise UsageError(
                f"the batch of a step of '{self.program}' is {times}",
                remedy="give either --global-batch in samples, or --global-tokens",
            )
        if self.global_batch is not None:
            return self.global_batch
        assert self.global_tokens is not None
        samples, rest = divmod(self.global_tokens, int(sequence or 1))
        if rest or not sequence:
            reason = f"whole sequences of {sequence}" if sequence else "sequences of a known length"
            raise UsageError(f"{self.global_tokens} tokens of a step are not {reason}")
        return samples


@options_record(frozen=True, config=STRICT)
class PlanOptions(PoolOptions):
    """How a plan is made.

    Only ``run``, ``top``, ``compile_count`` and ``compile_minutes`` change its result.

    Attributes:
        run: The options of each estimate.
    """

    systems: Systems = ()
    run: RunOptions = field(default_factory=RunOptions)
    top: Count = Field(
        default=3,
        description="how many of the best layouts to find for certain before XLA compiles",
    )
    compile_count: Annotated[int | None, Flag("N", name="compile")] = Field(
        default=None,
        ge=0,
        description="how many of the best layouts XLA compiles for the node; default: until no "
        "other could win, or 0 where its compiler is not installed",
    )
    compile_minutes: Annotated[float, Flag("M")] = Field(
        default=10.0, ge=0, description="minutes after which XLA compiles no other layout"
    )
    exhaustive: bool = Field(
        default=False, description="estimate every layout that fits, without bounds"
    )


@dataclass(frozen=True)
class ProgramInterface:
    """What a program accepts.

    Attributes:
        axes: The axes of its mesh, major axis first.
        defaults: The defaults of its options.
        is_batch_fixed: Whether its arrays have the whole batch of a step, as those of a function
            whose arguments are given. Its options are then whatever the request names.
        default_axes: The axes of its default mesh, for a program that accepts any axes.
    """

    axes: tuple[str, ...]
    defaults: Mapping[str, str]
    is_batch_fixed: bool = False
    default_axes: tuple[str, ...] = ()

    @classmethod
    def describe_function(cls, axes: tuple[str, ...]) -> Self:
        """Describe a function whose arguments are given."""
        return cls(axes, {}, is_batch_fixed=True)

    @property
    def divides_itself(self) -> bool:
        """Whether the program divides the samples of a step over a mesh, not the plan."""
        return not self.is_batch_fixed and BATCH not in self.defaults

    def select_own_batch(self, samples: int) -> dict[str, str]:
        """Select the option of such a program for the samples of a step; {} if it has none."""
        return {GLOBAL_BATCH: str(samples)} if GLOBAL_BATCH in self.defaults else {}


@dataclass(frozen=True)
class MeshFacts:
    """What a mesh makes of a program with one sample for each batch shard, or why it makes none.

    A program that divides the samples of a step itself has all of them.

    Attributes:
        samples: The samples of a step.
        argument_bytes: The bytes of the arguments on one device.
        error: Why there is no such program; "" if there is one.
    """

    samples: int = 0
    argument_bytes: int = 0
    error: str = ""


@dataclass(frozen=True)
class LayoutCandidate:
    """A layout: the mesh, and all options of the program that a plan sets.

    Attributes:
        argument_bytes: At least the bytes of the program's arguments on one device.
        error: Why the layout is no program; "" if nothing is known against it.
        dcn: The part of each axis that lies between slices; {} for the first axes.
    """

    mesh: Mapping[str, int]
    options: Mapping[str, str]
    argument_bytes: int = 0
    error: str = ""
    dcn: Mapping[str, int] = field(default_factory=dict)

    def format_axis(self, name: str) -> str:
        """Format the size of an axis, as ``4x2`` if 4 of its 8 devices lie between slices."""
        size, part = self.mesh.get(name, 1), self.dcn.get(name, 1)
        return f"{part}x{size // part}" if part > 1 else str(size)


@dataclass(frozen=True)
class LayoutSpace:
    """The layouts of a request.

    Attributes:
        axes: The sizes that are tried of each axis.
        options: The values that are tried of each option that does not follow from others.
        candidates: The layouts, including those that make no program.
    """

    axes: Mapping[str, Sequence[int]]
    options: Mapping[str, Sequence[str]]
    candidates: Sequence[LayoutCandidate]

    def describe_size(self) -> str:
        """Describe the space in one line."""
        meshes = {tuple(candidate.mesh.items()) for candidate in self.candidates}
        divided = {(*one.mesh.items(), *one.dcn.items()) for one in self.candidates if one.dcn}
        placed = f" in {len(divided)} divisions over slices" if divided else ""
        impossible = sum(bool(candidate.error) for candidate in self.candidates)
        values = [
            f"{name}={','.join(map(str, tried))}"
            for name, tried in (*self.axes.items(), *self.options.items())
        ]
        return (
            f"{format_count(len(self.candidates), 'layout')}: "
            f"{format_count(len(meshes), 'mesh').replace('meshs', 'meshes')}{placed}, "
            f"{impossible} of the layouts impossible; {' '.join(values)}"
        )


def select_axis_sizes(
    request: LayoutRequest, interface: ProgramInterface
) -> dict[str, tuple[int, ...]]:
    """Select the sizes to try of each axis of the mesh, major axis first.

    Raises:
        UsageError: The program names no axes, or lacks a requested one, or a size is wrong.
    """
    names = interface.axes or tuple(request.axes) or interface.default_axes
    if not names:
        raise UsageError(
            f"'{request.program}' does not name the axes of its mesh",
            remedy="name them with --mesh AXIS=SIZE[,SIZE...]",
        )
    for name, sizes in (*request.axes.items(), *(request.dcn or {}).items()):
        if name not in names:
            raise UsageError(
                f"'{request.program}' has no mesh axis '{name}'",
                remedy=suggest_nearest(name, list(names)),
            )
        if not sizes or min(sizes) < 1:
            raise UsageError(f"mesh axis '{name}' has no sizes, or one below 1")
    divisors = tuple(n for n in range(1, request.devices + 1) if request.devices % n == 0)
    return {
        name: tuple(dict.fromkeys(request.axes.get(name, OPEN_AXES.get(name, divisors))))
        for name in names
    }


def enumerate_meshes(axes: Mapping[str, Sequence[int]], devices: int) -> list[dict[str, int]]:
    """Enumerate the meshes whose sizes multiply to the number of devices; raises UsageError."""
    meshes = [
        dict(zip(axes, sizes, strict=True))
        for sizes in itertools.product(*axes.values())
        if math.prod(sizes) == devices
    ]
    if not meshes:
        sizes = " ".join(f"{name}={','.join(map(str, tried))}" for name, tried in axes.items())
        raise UsageError(f"no sizes of the mesh multiply to {devices} devices: {sizes}")
    return meshes


def select_option_values(
    request: LayoutRequest, interface: ProgramInterface
) -> dict[str, tuple[str, ...]]:
    """Select the values to try of the options that do not follow from the batch and the mesh.

    Raises:
        UsageError: The program lacks a requested option, or the global batch sets it.
    """
    requested = {name: tuple(dict.fromkeys(tried)) for name, tried in request.options.items()}
    if interface.is_batch_fixed:
        return requested
    for name in requested:
        if name not in interface.defaults:
            raise UsageError(
                f"'{request.program}' has no option '{name}'",
                remedy=suggest_nearest(name, [*interface.defaults]),
            )
    if GLOBAL_BATCH in requested:
        raise UsageError(
            f"the option '{GLOBAL_BATCH}' of '{request.program}' is that of the plan",
            remedy="give --global-batch",
        )
    stated = {
        SEQUENCE: interface.defaults.get(SEQUENCE, ""),
        ATTENTION: request.attention,
        LOGITS: MAXTEXT_LOGITS if request.program in DECODERS else "",
    }
    known = {**OPEN_OPTIONS, **{name: (value,) for name, value in stated.items() if value}}
    attentions = {*requested.get(ATTENTION, (request.attention,))} - {PLAIN_ATTENTION, ""}
    if ATTENTION in interface.defaults and attentions:
        first, *others = OPEN_OPTIONS[REMAT]
        known[REMAT] = (first, FUSED_REMAT, *others)
    values = {name: tried for name, tried in known.items() if name in interface.defaults}
    derived = () if interface.divides_itself else DERIVED_OPTIONS
    return {n: tried for n, tried in (values | requested).items() if n not in derived}


def build_layout_space(
    request: LayoutRequest,
    interface: ProgramInterface,
    meshes: Sequence[Mapping[str, int]],
    facts: Sequence[MeshFacts],
) -> LayoutSpace:
    """Build the space of a request from its meshes and what is known of each."""
    options = select_option_values(request, interface)
    candidates = [
        candidate
        for mesh, known in zip(meshes, facts, strict=True)
        for candidate in _list_mesh_candidates(request, interface, options, mesh, known)
    ]
    sizes = {name: tuple(sorted({mesh[name] for mesh in meshes})) for name in meshes[0]}
    derived = {name: tried for name, tried in request.options.items() if name in DERIVED_OPTIONS}
    return LayoutSpace(sizes, {**options, **derived}, candidates)


def _list_mesh_candidates(
    request: LayoutRequest,
    interface: ProgramInterface,
    options: Mapping[str, Sequence[str]],
    mesh: Mapping[str, int],
    known: MeshFacts,
) -> Iterator[LayoutCandidate]:
    """Yield the layouts of a mesh, or one that says why there is none."""
    fixed = {name: tried[0] for name, tried in options.items() if len(tried) == 1}
    if known.error:
        yield LayoutCandidate(mesh, fixed, error=known.error)
        return
    divisions: list[dict[str, int]] = [{}]
    if request.dcn is not None and request.slices > 1:
        divisions = list_slice_divisions(mesh, request.slices, request.dcn)
    if not divisions:
        error = f"no requested parts of its axes multiply to {request.slices} slices"
        yield LayoutCandidate(mesh, fixed, known.argument_bytes, error)
        return
    problems: set[str] = set()
    for values in list_option_choices(options):
        samples = 0 if interface.is_batch_fixed else request.count_samples(values.get(SEQUENCE))
        batches = _split_batch(samples, request, interface, known)
        for batch, dcn in itertools.product(batches, divisions):
            yield LayoutCandidate(mesh, {**values, **batch}, known.argument_bytes, dcn=dcn)
        if not batches:
            problems.add(_explain_batch(samples, request, interface, known))
    for problem in sorted(problems):
        yield LayoutCandidate(mesh, fixed, known.argument_bytes, problem)


def _explain_batch(
    samples: int, request: LayoutRequest, interface: ProgramInterface, known: MeshFacts
) -> str:
    """Explain why the samples of a step cannot be split."""
    if samples % known.samples == 0:
        return "no requested batch and accumulate make the global batch"
    problem = (
        f"{samples} samples of a step are not a multiple of the {known.samples} of all batch shards"
    )
    # One sample for each batch shard is at most one for each device, so that more are tokens.
    if known.samples <= request.devices or SEQUENCE in interface.defaults:
        return problem
    return (
        f"{problem}; without the fact samples_per_step, and without an option {SEQUENCE}, each "
        "token of tokens_per_step is a sample"
    )


def list_option_choices(options: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yield every choice of one value for each option."""
    for chosen in itertools.product(*options.values()):
        yield dict(zip(options, chosen, strict=True))


def _split_batch(
    samples: int, request: LayoutRequest, interface: ProgramInterface, known: MeshFacts
) -> list[dict[str, str]]:
    """List the ways to split the samples of a batch shard into microbatches."""
    if interface.is_batch_fixed:
        return [{}]
    if interface.divides_itself:
        return [interface.select_own_batch(samples)]
    per_shard, rest = divmod(samples, known.samples)
    if rest or not per_shard:
        return []
    has_microbatches = ACCUMULATE in interface.defaults
    ways = []
    for count in range(1, per_shard + 1 if has_microbatches else 2):
        if per_shard % count == 0:
            way = {BATCH: str(per_shard // count)}
            if has_microbatches:
                way[ACCUMULATE] = str(count)
            ways.append(way)
    return [
        way
        for way in ways
        if all(value in request.options.get(name, (value,)) for name, value in way.items())
    ]


def list_searched_names(candidates: Sequence[LayoutCandidate]) -> tuple[list[str], list[str]]:
    """List the axes and the options in which layouts differ."""
    axes = dict.fromkeys(name for candidate in candidates for name in candidate.mesh)
    options = dict.fromkeys(name for candidate in candidates for name in candidate.options)
    return (
        [n for n in axes if len({candidate.format_axis(n) for candidate in candidates}) > 1],
        [n for n in options if len({c.options[n] for c in candidates if n in c.options}) > 1],
    )
