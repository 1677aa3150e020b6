"""The key ``calibration`` of a node file: constants of the estimator ``calibrated``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hespas.configs.validation import Positive, StrictModel

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

AXES = {
    "product": ("m", "n", "k"),
    "attention": ("heads", "queries", "head_size"),
    "decode_attention": ("streams", "keys", "head_size"),
    "stream": ("columns", "rows"),
}
BACKWARD_AXES = ("queries", "head_size")
CLASSES = r"^(product\.\w+|attention|decode_attention|stream\.(loop|reduce|softmax|layer_norm))$"
Class = Annotated[str, Field(pattern=CLASSES)]


BandStep = Annotated[list[float], Field(min_length=3, max_length=3)]


class FitErrors(StrictModel):
    """The quality of a fit.

    Attributes:
        points: The number of measurements.
        dropped: The number of measurements that the fit ignores.
        held_out: The number of measurements that are used only for the errors.
        median: Median of the relative error, |estimate / measurement - 1|, on these.
        coverage: The share of these that are in the band.
    """

    source: str
    points: Annotated[int, Field(gt=0)]
    dropped: Annotated[int, Field(ge=0)] = 0
    held_out: Annotated[int, Field(ge=0)]
    median: NotNegative | None = None
    mean: NotNegative | None = None
    p90: NotNegative | None = None
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None


class PowerFile(StrictModel):
    """The energy of matrix operations; ``board_power.BoardPower`` describes the model.

    Attributes:
        idle_w: Power of a board that computes next to nothing.
        j_per_flop: Energy of a 16-bit matrix operation at full clock.
        j_per_8bit_flop: The same of an operation on 8-bit floats; None if it is not known.
        j_per_byte: Energy of a byte of device memory.
        clock_exponent: The power of the clock to which the energy of an operation is proportional.
        limit_w: The power limit of the measured board.
        burst_s: Two durations. Measured kernels up to the first end before the board lowers its
            clock; those from the second on were slowed by its limit.
    """

    idle_w: NotNegative
    j_per_flop: Positive
    j_per_8bit_flop: Positive | None = None
    j_per_byte: NotNegative
    clock_exponent: NotNegative
    limit_w: Positive
    burst_s: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None

    @model_validator(mode="after")
    def _check_bursts(self) -> PowerFile:
        if self.burst_s is not None and self.burst_s[0] >= self.burst_s[1]:
            raise ValueError("burst_s: the two durations must ascend")
        return self


def _check_surface(
    field: str, surface: Mapping[str, Sequence[float]], axes: Sequence[tuple[str, ...]]
) -> None:
    """Raise ValueError if a table has other axes, unordered knots, or values of another number."""
    knots = {name: axis for name, axis in surface.items() if name != "permille"}
    if tuple(knots) not in axes:
        raise ValueError(f"{field}: the axes must be one of {axes}")
    for name, axis in knots.items():
        if not axis or min(axis) <= 0 or list(axis) != sorted(set(axis)):
            raise ValueError(f"{field}: {name} needs ascending knots above 0")
    count = math.prod(len(axis) for axis in knots.values())
    if len(surface.get("permille", ())) != count:
        raise ValueError(f"{field}: permille needs {count} values, one for each knot")


class WindowFit(StrictModel):
    """Products whose windows the compiler states, so that the bytes they read again are known.

    Attributes:
        efficiency: The share of the peak rate; None: that of the class.
        source: Where it comes from.
    """

    efficiency: Positive | None = None
    source: str = ""


class FitFile(StrictModel):
    """The constants of one class of kernels; ``device_constants.KernelFit`` describes the formula.

    Attributes:
        eager_s: The launch time that is in the measurements, and not in a compiled program.
        limit_w: The power limit of the board at which the class was measured.
        residual: The knots of each axis, which span the range of the measurements, and under
            ``permille`` the logarithm of the correction at each knot in thousandths, with the last
            axis varying fastest.
        backward: Of ``attention``: the knots of ``queries`` and ``head_size``, and under
            ``permille`` the logarithm, in thousandths, of the time of a backward call over that of
            a forward call of as many operations.
        windows: Of products: how those with known windows run; None: what they read again is in the
            efficiency, and does not count.
        origin: What the class was taken from, if it was not measured on the device itself.
        band: Rows of: an upper limit of the time in seconds, and the low and high end of the 80 %
            band relative to the estimate.
    """

    fixed_s: NotNegative
    bandwidth: Positive
    efficiency: Positive = 1.0
    power: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    s_per_k: NotNegative = 0.0
    eager_s: NotNegative = 0.0
    limit_w: Positive | None = None
    residual: dict[str, list[float]] | None = None
    backward: dict[str, list[float]] | None = None
    backward_source: str = ""
    windows: WindowFit | None = None
    band: Annotated[list[BandStep], Field(min_length=1)]
    tags: list[Literal["transferred", "assumed"]] = Field(default_factory=list)
    fit: FitErrors | None = None
    source: str = ""
    origin: Literal["same chip", "compiler"] | None = None

    @model_validator(mode="after")
    def _check_band_and_residual(self) -> FitFile:
        for _, low, high in self.band:
            if not -1 < low <= 0 <= high:
                raise ValueError("band: low must be above -1 and at most 0, and high at least 0")
        if [row[0] for row in self.band] != sorted({row[0] for row in self.band}):
            raise ValueError("band: times must ascend")
        if self.backward is not None:
            _check_surface("backward", self.backward, [BACKWARD_AXES])
        if self.residual is not None:
            _check_surface("residual", self.residual, list(AXES.values()))
        return self


class Calibration(StrictModel):
    """The measured constants of a device.

    Attributes:
        like: The node whose constants are used for those that are missing.
        same_silicon: Whether ``like`` is the same chip, perhaps with other memory, so that its
            constants are not tagged as transferred.
        launch_s: Time of a kernel launch.
        core_bandwidth_bytes_per_s: Memory bandwidth that one core can use.
        sector_bytes: The bytes that a GPU reads from memory at once.
        issue_per_flop: Instructions that the lanes of a GPU issue for each operation of its f32
            peak rate.
        narrow_elements: The elements of less than 32 bits that a thread of XLA's loop kernels
            computes; of wider ones, and without this number, four.
        power: The energy of matrix operations, which determines the clock at a power limit; null if
            it is not that of ``like``, because the chip is of another process.
        fits: The constants by class of kernels.
    """

    date: str | None = None
    like: str | None = None
    same_silicon: bool = False
    launch_s: Positive | None = None
    core_bandwidth_bytes_per_s: Positive | None = None
    sector_bytes: Annotated[int, Field(gt=0)] | None = None
    issue_per_flop: Positive | None = None
    narrow_elements: Annotated[int, Field(gt=0)] | None = None
    power: PowerFile | None = None
    fits: dict[Class, FitFile] = Field(default_factory=dict)
    sources: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_residual_axes(self) -> Calibration:
        for name, fit in self.fits.items():
            axes = AXES[name.partition(".")[0]]
            if fit.residual is not None and tuple(fit.residual)[:-1] != axes:
                raise ValueError(
                    f"{name}: the keys of residual must be {', '.join(axes)}, permille"
                )
        return self
