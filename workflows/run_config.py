"""The options of a run, declared once.

The flags of ``hespas run``, the keys of its configuration file, the JSON schema, the keys of a
sweep and the table in docs/reference/run-config.md are made from :class:`RunConfig`. Its part
:class:`RunOptions` travels whole through plans, studies and validations, which have its flags too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.dataclasses import dataclass as options_record
from pydantic.fields import FieldInfo

from hespas.configs import read_json
from hespas.configs.kernel_costs import DeclaredCosts, convert_cost_mapping
from hespas.configs.overlap_slowdown import format_slowdown_shares, parse_slowdown_shares
from hespas.configs.validation import SlowdownSetting, validate_config
from hespas.simulators.simulation_options import SimulatorName
from hespas.support.errors import HespasError, UsageError

STEP_GROUP = "figures of a step, summed over all devices; by default those that hespas export wrote"
MEASURING_GROUP = "estimators that measure"
POOL_GROUP = "where cells run, and what is kept of them"
COMPILE_OPTIONS = ("xla_optimize", "overlap")
"""The options of the compilation, which the run of a program that XLA has compiled cannot take."""
BOUNDED_OPTIONS = (
    "estimator", "keep_going", "overlap", "xla_optimize", "congestion", "curves", "between_hosts",
    "slowdown", "network_model", "price_per_hour",
)  # fmt: skip
"""The options with which plans have bounds that are known not to exceed the estimates.

Others, such as new ones, may make an estimate shorter.
"""


@dataclass(frozen=True)
class Flag:
    """How an option appears on a command line, where its type and description do not say it.

    Attributes:
        metavar: The placeholder of the value; by default the choices, or the option's name.
        group: The title of the group of flags that it belongs to; "" for none.
        off_help: The help of ``--no-NAME``, for an option that is on by default.
        separator: Joins the values of a text flag that may be repeated; "" for one that may not.
        is_output: Whether it names an output of one run, which the cells of a sweep do not have.
        parse_text: Parses the value; None if the type of the option does.
        name: The name of the flag, if it is not that of the option.
        switches: Other flags without a value, each with the value that it sets.
    """

    metavar: str | None = None
    group: str = ""
    off_help: str = ""
    separator: str = ""
    is_output: bool = False
    parse_text: Callable[[str], Any] | None = None
    name: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)


Count = Annotated[int, Flag("N"), Field(ge=1)]
OptionalCount = Annotated[int | None, Flag("N"), Field(ge=1)]
NETWORK_MODEL_FLAG = Flag(switches={"--by-dimension": "flows", "--no-by-dimension": "astra"})
"""Of the network model, with the flags that older versions had in its place."""
NETWORK_MODEL_HELP = (
    "flows: messages share links, and collectives use the dimensions that their devices span; "
    "astra: the rules of ASTRA-sim"
)


def convert_by_dimension(values: Any) -> Any:
    """Replace the key ``by_dimension`` of older versions by the network model."""
    if not isinstance(values, Mapping) or "by_dimension" not in values:
        return values
    rest = {name: value for name, value in values.items() if name != "by_dimension"}
    by_dimension = values["by_dimension"]
    if by_dimension is None or "network_model" in values:
        return rest
    return {**rest, "network_model": "flows" if by_dimension else "astra"}


_COUNT = {"type": "number", "minimum": 0}
_COST = {
    "type": "object",
    "properties": {"flops": _COUNT, "bytes": _COUNT},
    "required": ["flops", "bytes"],
    "additionalProperties": False,
}
COST_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "additionalProperties": _COST},
        {"type": "null"},
    ]
}


def _format_cost_mapping(value: Any) -> Any:
    """Format a mapping of kernels to their costs as the text of the flag; others as they are."""
    if isinstance(value, Mapping):
        return DeclaredCosts(dict(convert_cost_mapping(value, "kernel_cost"))).to_text()
    return value


def _format_size_mapping(value: Any) -> Any:
    """Format a mapping of dimensions to their sizes as the text of the flag; others as they are."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={size}" for name, size in value.items())
    return value


TIMEOUT_S = 3600.0  # of a cell
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True)


class _StrictOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunInputs(_StrictOptions):
    """What a run estimates, and for which machine. Plans, studies and validations fill this in."""

    mlir: Annotated[str | None, Flag("FILE")] = Field(
        default=None,
        min_length=1,
        description="the program: StableHLO or HLO as text, bytecode or protobuf; - for stdin",
    )
    node: Annotated[str | None, Flag("NAME")] = Field(
        default=None,
        min_length=1,
        description="the type of device: a preset (hespas presets nodes lists them) or a JSON file",
    )
    system: Annotated[str | None, Flag("NAME")] = Field(
        default=None,
        min_length=1,
        description="the network: a preset (hespas presets systems lists them) or a folder",
    )
    output: Annotated[str | None, Flag("DIR", is_output=True)] = Field(
        default=None,
        min_length=1,
        description="folder for the traces; by default named after the program",
    )
    dims: Annotated[str | None, Flag("NAME=SIZE,..."), BeforeValidator(_format_size_mapping)] = (
        Field(
            default=None,
            description="sizes of symbolic dimensions, such as b=8,s=1024 or arg0=8x1024x64; by "
            "default the bound in the type, or 128",
        )
    )
    trip_count: Annotated[int | None, Flag("N")] = Field(
        default=None,
        ge=0,
        description="trip count of loops that depend on data; by default the maximum that their "
        "conditions state, or 1, with a warning",
    )
    form: Literal["xla", "fuse", "as-is"] | None = Field(
        default=None,
        description="the program to estimate: xla compiles it for the node, fuse groups ops into "
        "kernels as XLA would, as-is takes its ops. By default, estimators of real times "
        "(calibrated) use xla for NVIDIA GPUs, TPUs and programs that XLA has not optimised; where "
        "XLA cannot compile for the node fuse, with a warning; otherwise as-is",
    )
    fuse: bool = Field(default=False, description="the same as --form fuse")


class _KernelOptions(_StrictOptions):
    """The options of the kernels: how they are found, divided and estimated."""

    split: Literal["linear", "individual", "individual-merge"] | None = Field(
        default=None,
        description="how to divide compute into regions; by default linear with estimators of "
        "real times (calibrated), else individual-merge",
    )
    block_limit: Annotated[int, Flag("N")] = Field(
        default=0, ge=0, description="most ops in a region; 0 for no limit"
    )
    overlap: Literal["xla", "latency-hiding", "none"] | None = Field(
        default=None,
        description="collectives alongside compute in a program that XLA compiles or hespas fuses: "
        "xla, as XLA plans it (by default); latency-hiding, as its latency-hiding scheduler does, "
        "which is off by default on GPUs before Hopper and on other devices; none disables that "
        "scheduler and asynchronous collectives, so that every collective is serial (the option "
        "async-collectives=remove of xla-optimize, with the split linear; a TPU keeps the order of "
        "its compiler)",
    )
    xla_optimize: Annotated[str | None, Flag("OPTIONS", separator=" ")] = Field(
        default=None,
        description="options of the pass xla-optimize for a program that XLA compiles, such as "
        "preset=NAME, disable=PASS or flags='--xla_...', separated by spaces; a program that "
        "hespas fuses follows flags about collectives",
    )
    estimator: Annotated[str, Flag("NAME")] = Field(
        default="calibrated", description="the estimator of the regions, such as roofline"
    )
    setting: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="settings of the estimator"
    )
    keep_going: bool = Field(
        default=False, description="tag and count ops without a cost rule instead of stopping"
    )
    kernel_cost: Annotated[
        str | None,
        Flag("NAME=FLOPS:BYTES", separator=";"),
        BeforeValidator(_format_cost_mapping),
        WithJsonSchema(COST_SCHEMA),
    ] = Field(
        default=None,
        description="work of one custom call, or of an op that hespas has no rule for, on one "
        "device, by the name of the kernel, the target or the op; several separated by ; or a JSON "
        "file, an object as in such a file, or a Python file with cost rules",
    )


class NetworkOptions(_StrictOptions):
    """The options of the network model, which ``hespas simulate`` has too.

    Those that ``SimulationOptions`` has by the same name are handed on to the simulator. None
    stands for its default there, or for that of the node.
    """

    _convert_by_dimension = model_validator(mode="before")(convert_by_dimension)

    congestion: bool = Field(
        default=False,
        description="messages wait for each other on a link as in ASTRA-sim's congestion-aware "
        "backend",
    )
    network_model: Annotated[Literal["flows", "astra"] | None, NETWORK_MODEL_FLAG] = Field(
        default=None,
        description=f"{NETWORK_MODEL_HELP}; by default astra for a folder of ASTRA-sim's files "
        "with estimators of bounds, and flows otherwise",
    )
    curves: Annotated[str | None, Flag("DEVICE")] = Field(
        default=None,
        description="use collective timings measured on DEVICE (none: use the network model); by "
        "default the node's own with estimators of real times (calibrated), else none",
    )
    between_hosts: Literal["network", "nccl"] | None = Field(
        default=None,
        description="what times collectives between hosts: the network model, or NCCL's tuning "
        "model of the device of --curves; by default NCCL's with estimators of real times "
        "(calibrated) and a device that has it",
    )
    slowdown: Annotated[SlowdownSetting | None, Flag("X", parse_text=parse_slowdown_shares)] = (
        Field(
            default=None,
            description="share by which compute takes longer while communication runs, or shares "
            "by kind such as all_reduce=0.3,other=0.2; by default the node's own with estimators "
            "of real times (calibrated), else 0",
        )
    )


class RunOptions(NetworkOptions, _KernelOptions):
    """The options of an estimate, whatever makes its program.

    Every command that makes estimates has a flag for each of them, but for those of
    :data:`EXCLUDED`, and hands the whole value on.
    """

    price_per_hour: Annotated[float | None, Flag("USD", STEP_GROUP)] = Field(
        default=None,
        gt=0,
        description="US dollars for an hour of one device; by default the node's price",
    )


class SimulatorOptions(_StrictOptions):
    """Which simulator simulates the traces; ``hespas simulate`` has these options too."""

    simulator: SimulatorName = Field(
        default="auto",
        description="embedded; astra-sim, which must be installed; auto: embedded, or astra-sim if "
        "--astra-sim names it; both: run both, and fail if they differ; simgrid: SimGrid's network "
        "with messages one by one",
    )
    astra_sim: Annotated[str | None, Flag("PATH")] = Field(
        default=None, description="the ASTRA-sim executable; by default searched on PATH"
    )


class RunConfig(SimulatorOptions, RunOptions, RunInputs):
    """The configuration file of ``hespas run``."""

    memory: Annotated[bool, Flag(off_help="do not compute the peak memory of a device")] = Field(
        default=True, description="compute the peak memory of a device"
    )
    simulate: Annotated[
        bool, Flag(off_help="write the traces without simulating them, also with --system")
    ] = Field(default=True, description="simulate the traces if there is a system")
    timeline: Annotated[str | None, Flag("FILE", is_output=True)] = Field(
        default=None, description="write a timeline of the simulation for https://ui.perfetto.dev"
    )
    sensitivity: Annotated[bool, Flag(is_output=True)] = Field(
        default=False,
        description="also report how much each rate of the node and the network matters",
    )
    model_flops: Annotated[float | None, Flag("N", STEP_GROUP)] = Field(
        default=None, gt=0, description="operations of the model, without recomputation, for MFU"
    )
    tokens_per_step: Annotated[float | None, Flag("N", STEP_GROUP)] = Field(
        default=None, gt=0, description="tokens of a step, for tokens per second"
    )
    samples_per_step: Annotated[float | None, Flag("N", STEP_GROUP)] = Field(
        default=None, gt=0, description="samples of a step, for samples per second"
    )
    jobs: Annotated[int, Flag("N", MEASURING_GROUP)] = Field(
        default=1, ge=1, description="number of worker processes"
    )
    dask: Annotated[str | None, Flag("ADDRESS", MEASURING_GROUP)] = Field(
        default=None, description="measure on the workers of this Dask cluster, tcp://host:port"
    )
    cache: Annotated[str | None, Flag("FILE", MEASURING_GROUP)] = Field(
        default=None,
        description="file for the measurements (none: keep none); see hespas measure cache",
    )
    timeout: Annotated[float | None, Flag("S", MEASURING_GROUP)] = Field(
        default=None, gt=0, description="seconds to measure one region; by default 600"
    )
    memory_limit: Annotated[float | None, Flag("GB", MEASURING_GROUP)] = Field(
        default=None, gt=0, description="memory of one worker in GB; by default no limit"
    )


Systems = Annotated[
    Sequence[str],
    Flag("SYSTEM", name="system"),
    Field(
        description="system presets, patterns of them, or folders, of which one with the number of "
        "devices of a program is used; default: the node's presets"
    ),
]


@options_record(frozen=True, config=STRICT, kw_only=True)
class PoolOptions:
    """Where cells run, and what is kept of them; no option changes a result."""

    jobs: Annotated[
        int,
        Flag("N", POOL_GROUP),
        Field(ge=1, description="number of worker processes; default: one for each core"),
    ] = 1
    dask: Annotated[
        str,
        Flag("ADDRESS", POOL_GROUP),
        Field(description="run on this Dask cluster, tcp://host:port; programs are made here"),
    ] = ""
    timeout_s: Annotated[
        float,
        Flag("S", POOL_GROUP, name="timeout"),
        Field(gt=0, description="seconds that a cell may take, such as an estimate or a compile"),
    ] = TIMEOUT_S
    work_dir: Annotated[
        str, Flag("DIR", POOL_GROUP), Field(description="folder that keeps the programs")
    ] = ""
    cache: Annotated[
        str,
        Flag("FILE", POOL_GROUP),
        Field(
            description="file for finished cells, or none; default: $HESPAS_CACHE, or the cache of "
            "the user"
        ),
    ] = ""

    @property
    def program_folder(self) -> Path:
        """The folder that keeps programs, by default beside the file that keeps cells."""
        from hespas.estimators.measure.measurement_cache import locate_default_file

        return Path(self.work_dir or locate_default_file().parent / "programs")


_ORDERED = "stages of a pipeline run their kernels in order, and so do all programs"
_ROWS = "its `--keep-going` accepts rows with errors"
EXCLUDED: Mapping[str, Mapping[str, str]] = {
    "hespas plan": {"split": _ORDERED},
    "hespas study": {"keep_going": _ROWS},
    "hespas study pipeline": {"split": _ORDERED, "keep_going": _ROWS},
    "hespas validate": {"split": _ORDERED, "price_per_hour": "no prices are compared"},
}
"""The commands that hand :class:`RunOptions` on: the options that each lacks, with the reason."""


def list_run_options(command: str) -> list[str]:
    """List the options of an estimate that a command has."""
    return [name for name in RunOptions.model_fields if name not in EXCLUDED[command]]


def take_run_options(command: str, values: Mapping[str, Any]) -> tuple[RunOptions, dict[str, Any]]:
    """Take the options of an estimate from keywords; also returns the other keywords.

    Raises:
        HespasError: A value is wrong.
        UsageError: The command lacks the option.
    """
    for name, reason in EXCLUDED[command].items():
        if name in values:
            raise UsageError(f"{command} has no option '{name}': {reason}")
    names = list_run_options(command)
    own = {name: value for name, value in values.items() if name in names}
    rest = {name: value for name, value in values.items() if name not in names}
    return validate_config(RunOptions, own, command), rest


def list_changed_options(options: BaseModel) -> list[str]:
    """List the options that have another value than by default."""
    fields = type(options).model_fields
    return [
        n
        for n, f in fields.items()
        if getattr(options, n) != f.get_default(call_default_factory=True)
    ]


def list_flag_words(options: BaseModel, names: Collection[str]) -> list[str]:
    """List the words of the flags that set options, without those that have their default."""
    words: list[str] = []
    for name in list_changed_options(options):
        flag, value = f"--{name.replace('_', '-')}", getattr(options, name)
        if name not in names:
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag.removeprefix('--')}")
        elif name == "setting":
            texts = [
                f"{key}={str(entry).lower() if isinstance(entry, bool) else entry}"
                for key, entry in value.items()
            ]
            words += [word for text in texts for word in (flag, text)]
        else:
            text = format_slowdown_shares(value) if name == "slowdown" else str(value)
            words += [flag, text]
    return words


def get_flag(option: FieldInfo) -> Flag:
    """Return the flag of an option."""
    return next((entry for entry in option.metadata if isinstance(entry, Flag)), Flag())


def list_group_options(group: str) -> tuple[str, ...]:
    """List the options in a group of flags."""
    return tuple(n for n, f in RunConfig.model_fields.items() if get_flag(f).group == group)


MEASURING = list_group_options(MEASURING_GROUP)
STEP = list_group_options(STEP_GROUP)
KERNEL_OPTIONS = tuple(_KernelOptions.model_fields)
OUTPUTS = tuple(n for n, f in RunConfig.model_fields.items() if get_flag(f).is_output)


def load_json_object(path: str) -> dict[str, Any]:
    """Read the object in a JSON file; raises HespasError with line and column."""
    try:
        return read_json(path)
    except HespasError as error:
        error.remedy = error.remedy or _suggest_program_flag(path)
        raise


def _suggest_program_flag(path: str) -> str:
    name = path.removesuffix(".xz").removesuffix(".gz")
    is_program = name.endswith((".mlir", ".mlirbc", ".hlo", ".pb", ".txt"))
    return "a program goes with --mlir" if is_program else ""
