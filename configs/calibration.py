"""The key ``calibration`` of a node file: measured constants of the estimator ``calibrated``."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hespas.configs.validation import Positive, StrictModel

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

AXES = {
    "product": ("m", "n", "k"),
    "attention": ("heads", "queries", "head_size"),
    "stream": ("columns", "rows"),
}
CLASSES = r"^(product\.\w+|attention|stream\.(loop|reduce|softmax|layer_norm))$"
Class = Annotated[str, Field(pattern=CLASSES)]


BandStep = Annotated[list[float], Field(min_length=3, max_length=3)]


class FitErrors(StrictModel):
    """How good a fit is: errors are relative, |estimate / measurement - 1|, on held-out shapes."""

    source: str
    points: Annotated[int, Field(gt=0)]
    dropped: Annotated[int, Field(ge=0)] = 0
    held_out: Annotated[int, Field(ge=0)]
    median: NotNegative | None = None
    mean: NotNegative | None = None
    p90: NotNegative | None = None
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None


class FitFile(StrictModel):
    """The constants of one class of kernels; see ``estimators.calibrated.constants.Fit``.

    ``eager_s`` is the launch that the measurement had in it and a compiled program has not.
    ``residual`` holds the knots of each axis, whose ends are the range of the measurements, and the
    logarithms of the correction in thousandths, the last axis fastest. Rows of ``band`` are: up to
    this many seconds, low and high end of the 80 % band relative to the estimate.
    """

    fixed_s: NotNegative
    bandwidth: Positive
    efficiency: Positive = 1.0
    power: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    s_per_k: NotNegative = 0.0
    eager_s: NotNegative = 0.0
    residual: dict[str, list[float]] | None = None
    band: Annotated[list[BandStep], Field(min_length=1)]
    tags: list[Literal["transferred", "assumed"]] = Field(default_factory=list)
    fit: FitErrors | None = None
    source: str = ""

    @model_validator(mode="after")
    def _check_band_and_residual(self) -> FitFile:
        for _, low, high in self.band:
            if not -1 < low <= 0 <= high:
                raise ValueError("band: low is from -1 to 0, and high at least 0")
        if [row[0] for row in self.band] != sorted({row[0] for row in self.band}):
            raise ValueError("band: times must ascend")
        if self.residual is None:
            return self
        knots = {name: axis for name, axis in self.residual.items() if name != "permille"}
        if tuple(knots) not in AXES.values():
            raise ValueError(f"residual: the axes are one of {list(AXES.values())}")
        for name, axis in knots.items():
            if not axis or min(axis) <= 0 or axis != sorted(set(axis)):
                raise ValueError(f"residual: {name} needs knots, ascending, above 0")
        count = math.prod(len(axis) for axis in knots.values())
        if len(self.residual.get("permille", [])) != count:
            raise ValueError(f"residual: permille needs {count} values, one per knot")
        return self


class Calibration(StrictModel):
    """What was measured of a device. What is missing is as on the node ``like``.

    ``same_silicon`` says that this node is the same chip, perhaps with other memory, so that what
    is taken from it is not tagged as transferred.
    """

    date: str | None = None
    like: str | None = None
    same_silicon: bool = False
    launch_s: Positive | None = None
    core_bandwidth_bytes_per_s: Positive | None = None
    fits: dict[Class, FitFile] = Field(default_factory=dict)
    sources: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_residual_axes(self) -> Calibration:
        for name, fit in self.fits.items():
            axes = AXES[name.partition(".")[0]]
            if fit.residual is not None and tuple(fit.residual)[:-1] != axes:
                raise ValueError(f"{name}: residual's axes are {', '.join(axes)}, then permille")
        return self
