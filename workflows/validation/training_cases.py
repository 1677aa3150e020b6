"""Measured training steps, each of which describes its program by its model, and their predictions.

The columns of a table are those of published benchmarks: the dimensions of a model, its division
over devices, the hardware and the step time. Only ``REQUIRED`` must exist; an empty cell means "not
stated".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as options_record

from hespas.estimators.calibrated.attention_library import CUDNN
from hespas.support.csv_rows import read_csv_columns, read_csv_rows
from hespas.support.errors import HespasError
from hespas.support.suggestions import suggest_nearest
from hespas.workflows.run_config import STRICT, Flag, PoolOptions, RunOptions
from hespas.workflows.validation.case_frameworks import TrainingFramework, find_framework
from hespas.workflows.validation.prediction_scores import COLUMNS as CELL_COLUMNS

if TYPE_CHECKING:
    from hespas.workflows.pipelines.schedules import PipelineSchedule
    from hespas.workflows.pipelines.stage_workloads import StageWorkloads
    from hespas.workflows.studies.program_forms import Form
    from hespas.workflows.studies.study_definition import StudyWorkload
    from hespas.workflows.studies.study_programs import StudyProgram
    from hespas.workflows.studies.study_runner import StudyCell
    from hespas.workflows.validation.case_layers import LayerExtension
    from hespas.workflows.validation.case_systems import CaseSystem
    from hespas.workflows.validation.prediction_scores import StepPrediction

REQUIRED = ("model", "hardware", "devices", "step_time_s")
DIMENSIONS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
# The axes of a mesh by the names of rows, which state whole sizes (``dp=2;fsdp=8``, ``TP8 DP2``),
# or those between slices and within one under MaxText's names (``dcn_data_parallelism=2``,
# ``ici_fsdp_parallelism=-1``), where -1 stands for the rest.
_AXES = {
    "dp": "dp", "data": "dp", "ddp": "dp", "replica": "dp", "dp_replicate": "dp", "dp_rep": "dp",
    "fsdp": "fsdp", "dp_shard": "fsdp", "hsdp_shard": "fsdp",
    "tp": "tp", "tensor": "tp", "model": "tp", "mdl": "tp", "mp": "tp",
    "pp": "pp", "pipeline": "pp", "stage": "pp", "vp": "vp", "vpp": "vp",
    "cp": "cp", "context": "cp", "ep": "ep", "expert": "ep", "sp": "sp",
    "fsdp_transpose": "fsdp_transpose", "sequence": "sequence",
    "tensor_transpose": "tensor_transpose", "tensor_sequence": "tensor_sequence",
    "diloco": "diloco", "autoregressive": "autoregressive", "etp": "etp",
}  # fmt: skip
NO_DEVICES = ("sp", "vp")  # axes that have the devices of others
_SIZE = re.compile(
    r"(?<![\w.])(?:(ici|dcn)_)?([a-z_]+?)(?:_parallelism|_parallel|_size|_degree)*"
    r"\s?[=:]?\s?(-?\d+)(?![\w.]|\.\d)"
)
GROUP = "tables of training cases"  # of flags


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """One measured training step.

    Attributes:
        id: The name of the row; its number if the table has no column ``id``.
        devices: The number of devices.
        measured_s: The measured step time in seconds.
        texts: Every column of the row by name, without surrounding spaces.
        line: The line in the file.
    """

    id: str
    devices: int
    measured_s: float
    texts: Mapping[str, str]
    line: int

    def get_text(self, column: str) -> str:
        """Return the text of a column; "" if it is empty or missing."""
        return self.texts.get(column, "")

    def join_words(self, *columns: str) -> str:
        """Return what the row says in some columns, in lower case."""
        return " ".join(map(self.get_text, columns)).lower()

    @property
    def words(self) -> str:
        """What the row says of its framework, with its notes, in lower case."""
        return f"{self.get_text('framework')}; {self.get_text('notes')}".lower()

    @property
    def framework(self) -> TrainingFramework:
        """The framework; one without a name if the row states none that is known."""
        return find_framework(self.get_text("framework"))

    @property
    def is_on_tpu(self) -> bool:
        return "tpu" in self.get_text("hardware").lower()

    def read_axis_sizes(self) -> dict[str, int]:
        """Read the size of each axis of the mesh that the row states."""
        return read_axis_sizes(self.get_text("parallelism"), self.devices)

    def describe_network(self) -> str:
        """Return all that the row says about its network and its slices."""
        return "; ".join(filter(None, map(self.get_text, ("network", "uncertain", "notes"))))


def read_fsdp_strategy(case: TrainingCase) -> str:
    """Return the strategy of PyTorch's FSDP that a row states, or ""."""
    strategy = re.search(r"fsdp_strategy=(\w+)", case.get_text("parallelism"))
    return strategy[1] if strategy else ""


def is_case_table(path: str) -> bool:
    """Return whether a CSV file describes training cases, not cells of program files.

    Raises:
        HespasError: It has the columns of neither.
    """
    columns = read_csv_columns(path)
    missing = {
        "training cases": [name for name in REQUIRED if name not in columns],
        "program files": [name for name in CELL_COLUMNS if name not in columns],
    }
    for kind, names in missing.items():
        if not names:
            return kind == "training cases"
    kind = min(missing, key=lambda kind: len(missing[kind]))
    required = ", ".join(REQUIRED if kind == "training cases" else CELL_COLUMNS)
    raise HespasError(
        f"there is no column {', '.join(missing[kind])}",
        where=f"{path}:1",
        remedy=f"a table of {kind} has {required}",
    )


def read_training_cases(path: str) -> list[TrainingCase]:
    """Read a table of training cases; raises HespasError with the line."""
    rows = read_csv_rows(path, REQUIRED)
    cases = [_parse_case(row, f"{path}:{line}", line, i) for i, (line, row) in enumerate(rows, 1)]
    if not cases:
        raise HespasError("it has no row", where=path)
    first_lines: dict[str, int] = {}
    for case in cases:
        if first_lines.setdefault(case.id, case.line) != case.line:
            raise HespasError(
                f"id '{case.id}' is that of line {first_lines[case.id]} too",
                where=f"{path}:{case.line}",
            )
    return cases


def select_cases(cases: Sequence[TrainingCase], ids: Sequence[str]) -> list[TrainingCase]:
    """Select cases by id, in the order of the table; raises HespasError for an unknown id."""
    known = [case.id for case in cases]
    for name in ids:
        if name not in known:
            raise HespasError(f"no row has the id '{name}'", remedy=suggest_nearest(name, known))
    return [case for case in cases if not ids or case.id in ids]


def _parse_case(row: Mapping[str, str], where: str, line: int, number: int) -> TrainingCase:
    if None in row:
        raise HespasError("the row has more cells than the table has columns", where=where)
    texts = {name: (text or "").strip() for name, text in row.items()}
    for name in REQUIRED:
        if not texts[name]:
            raise HespasError(f"'{name}' is empty", where=where)
    devices, measured_s = texts["devices"].removesuffix(".0"), texts["step_time_s"]
    if not devices.isdecimal() or int(devices) < 1:
        raise HespasError(f"devices is '{devices}', not a whole number from 1", where=where)
    try:
        seconds = float(measured_s)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise HespasError(
            f"step_time_s is '{measured_s}', not a positive number of seconds", where=where
        )
    return TrainingCase(texts.get("id") or str(number), int(devices), seconds, texts, line)


def read_axis_sizes(text: str, devices: int) -> dict[str, int]:
    """Read the size of each axis that a text states, whole or as a product of two levels."""
    if division := _read_host_division(text, devices):
        return division
    whole: dict[str, int] = {}
    levels: dict[str, list[int]] = {}
    for level, axis, size in _list_stated_sizes(text):
        if level:
            levels.setdefault(axis, []).append(size)
        else:
            whole.setdefault(axis, size)
    for axis, factors in levels.items():
        whole.setdefault(axis, math.prod(factors))
    open_axes = [axis for axis, size in whole.items() if size < 0]
    if len(open_axes) == 1:
        stated = math.prod(n for axis, n in whole.items() if n > 0 and axis not in NO_DEVICES)
        whole[open_axes[0]] = devices // stated
    return whole


def _list_stated_sizes(text: str) -> list[tuple[str, str, int]]:
    """List the sizes that a text states: the level (``ici``, ``dcn`` or none), axis and size."""
    found = _SIZE.findall(text.lower())
    return [(level, _AXES[name], int(size)) for level, name, size in found if name in _AXES]


def read_slice_parts(text: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Read the part of each axis that lies between slices, of axes for which a text states one.

    Args:
        text: The division, with sizes between slices (``dcn_``) and within one (``ici_``).
        sizes: The whole size of each axis.

    Raises:
        HespasError: Both parts of an axis contradict its size.
    """
    stated = {(level, axis): size for level, axis, size in _list_stated_sizes(text)}
    parts: dict[str, int] = {}
    for (level, axis), between in stated.items():
        if level != "dcn":
            continue
        within, size = stated.get(("ici", axis), -1), sizes[axis]
        parts[axis] = between if between > 0 else size // max(within, 1)
        if within > 0 and parts[axis] * within != size:
            raise HespasError(f"{between} x {within} devices of an axis {axis}={size}")
    return parts


def _read_host_division(text: str, devices: int) -> dict[str, int]:
    """Read ``fsdp+dp (FSDP 4 nodes x 8)``, or a range of nodes, of which the fewest count.

    NVIDIA's benchmarks of Paxml have 1 node for 5B and 16 for 175B (dgxc-benchmarking v24.11.1,
    paxml/configure.sh); rows of 175B state 16.
    """
    match = re.search(r"fsdp (\d+)(?:\.\.\d+)? (?:nodes|hosts) x (\d+)", text.lower())
    if not match:
        return {}
    per_host = int(match[2])
    fsdp = min(devices, int(match[1]) * per_host)
    return {"dp": devices // fsdp, "fsdp": fsdp}


@options_record(frozen=True, config=STRICT)
class CaseOptions(PoolOptions):
    """How cases are predicted; ``run`` are the options of each estimate."""

    form: Annotated[Literal["scheduled", "optimised", "fused"] | None, Flag(group=GROUP)] = Field(
        default=None,
        description="scheduled: as XLA compiles and schedules it (default); optimised: the same, "
        "with collectives one by one; fused: by hespas' own fusion, for any node and without XLA "
        "(default where XLA cannot compile a row)",
    )
    run: RunOptions = field(default_factory=RunOptions)
    changes: Annotated[Mapping[str, str], Flag(name="set", group=GROUP)] = Field(
        default_factory=dict,
        description="an option of the recipe for all rows, such as remat=full",
    )
    all_layers: Annotated[bool, Flag(group=GROUP)] = Field(
        default=False,
        description="compile programs whose operators run one by one with all their layers, not "
        "two with a few, from which the step is extended",
    )


@dataclass
class CaseOutcome:
    """A case with its prediction, or the reasons why there is none.

    What reads a part of the row adds what the row leaves open to the assumptions, and what no
    recipe can express to the reasons.

    Attributes:
        case: The case.
        reasons: By kind (model, precision, ...), why there is no prediction.
        assumptions: What the row does not state, one phrase each.
        workload: The recipe with options and mesh; None if the case is refused.
        dcn: The part of each axis of the mesh that lies between slices, where the row states it.
        schedule: The schedule of a pipeline; None without one.
        stage_workloads: The recipes of its stages.
        xla_options: Options of the pass xla-optimize.
        node: The node; "" if unknown.
        form: The form of the programs, a key of ``program_forms.FORMS``.
        system: The network; None if it was not chosen.
        program: The program in the form of the run; None of a pipeline.
        extension: The smaller programs from which it is predicted; None if it is compiled itself.
        attention: The library whose rates fused attention has.
        cells: The programs that are compiled, with their files and the rows of the sweep.
        compile_s: The seconds that XLA took now; None if the programs existed before.
        figures: The row of the sweep.
        prediction: The prediction; None if the case has reasons.
    """

    case: TrainingCase
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    workload: StudyWorkload | None = None
    dcn: Mapping[str, int] = field(default_factory=dict)
    schedule: PipelineSchedule | None = None
    stage_workloads: Sequence[StageWorkloads] = ()
    xla_options: str = ""
    node: str = ""
    form: Form = "scheduled"
    system: CaseSystem | None = None
    program: StudyProgram | None = None
    extension: LayerExtension | None = None
    attention: str = CUDNN
    cells: Sequence[StudyCell] = ()
    compile_s: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    prediction: StepPrediction | None = None

    @property
    def compiled_programs(self) -> Sequence[StudyProgram]:
        """The programs that are compiled for a case without a pipeline."""
        if self.extension is not None:
            return self.extension.programs
        return [] if self.program is None else [self.program]

    def extend_layers(self, extension: LayerExtension) -> None:
        """Predict the case from the programs of an extension, and say so."""
        self.extension = extension
        self.assumptions.append(extension.describe())

    @property
    def warnings(self) -> list[str]:
        """The warnings of the run."""
        text = self.figures.get("warnings")
        return json.loads(text) if text else []
