"""The estimators in the configuration of the published tools.

The model of a method checks its section ``hardware``, and tells which estimator of hespas replaces
the method, with which settings, and which keys have no effect.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
)
from pydantic_core import PydanticCustomError

from hespas import configs
from hespas.configs.node_files import CacheKeys, PublishedHardware
from hespas.estimators.accelerators import zigzag_worker
from hespas.support.errors import HespasError

# The unit that a simulator models: one array of TPU v3, as in the published COCOSSim backend.
# All numbers are given, so that none is that of a preset.
SYSTOLIC_UNIT = {
    "rows": 128, "columns": 128, "arrays": 1, "cores": 1, "cycles_per_row": 1, "lanes": 1024,
    "alus": 1, "sram_bytes": 8 << 20,
}  # fmt: skip
# The published tool translates to ONNX, where ZigZag counts these bits for elements of any type.
ZIGZAG_BITS = {"element_bits": 8, "sum_bits": 16}
ZIGZAG_DEFAULT = "tpuv3_like.yaml"
_MOST_GHZ, _LEAST_HZ = 100, 1e6  # no clock of an accelerator is outside of these
PLATFORMS = {"gpu": "cuda", "host": "cpu"}  # alternative names in XLA


def _normalise_choice(value: Any) -> Any:
    """Return a word, or the only item of a list, in lower case."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value.lower() if isinstance(value, str) else value


def _drop_empty_settings(**settings: Any) -> dict[str, Any]:
    """Select the settings that have a value."""
    return {name: value for name, value in settings.items() if value}


def _check_clock(frequency: float) -> float:
    if _MOST_GHZ <= frequency < _LEAST_HZ or frequency > _MOST_GHZ * 1e9:
        text = "input should be a clock in Hz, such as 940000000, or in GHz, such as 0.94"
        raise PydanticCustomError("clock", text)
    return frequency


# In Hz, as published. Values that are no clock in Hz are in GHz.
ClockFrequency = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_check_clock)]


class _HardwareModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PublishedMethod:
    """How hespas runs a method.

    Attributes:
        estimator: The name of the estimator that replaces the method.
        is_node: Whether the section has peak rates, so that its file is a node.
    """

    estimator: ClassVar[str]
    is_node: ClassVar[bool] = False

    def to_estimator_settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        return {}

    def describe_ignored_keys(self) -> Iterator[str]:
        """Yield one line for each key that has no effect or another effect."""
        return iter(())


class NodeFileMethod(PublishedMethod):
    """The roofline of a node file of hespas, which takes the place of a configuration."""

    estimator: ClassVar[str] = "roofline"
    is_node: ClassVar[bool] = True


class RooflineSection(PublishedHardware, PublishedMethod):
    """The method ``roofline``: peak rates of a device."""

    estimator: ClassVar[str] = "roofline"
    is_node: ClassVar[bool] = True

    def describe_ignored_keys(self) -> Iterator[str]:
        if self.warn_on_unknown_type is False:
            yield "warn_on_unknown_type: types without a peak rate are always reported"


class _MethodSection(_HardwareModel, CacheKeys, PublishedMethod):
    """Base of the other sections, with the keys that all methods have."""

    type: str | None = None
    num_npus: Annotated[int, Field(gt=0)] | None = None


# The published tools declare a switch, which they do not read; here a number is the repetitions.
SampleOption = StrictBool | Annotated[int, Field(gt=0)] | None


def _read_repetitions(sample: bool | int | None) -> int | None:
    return None if isinstance(sample, bool) else sample


def _describe_sample_switch(sample: bool | int | None) -> Iterator[str]:
    if isinstance(sample, bool):
        yield "sample: no effect as a switch; a number sets the repetitions of a measurement"


class _XlaTranslateSection(_HardwareModel):
    # The published presets write ``target_backend``, its other files ``target-backends``.
    target_backends: Annotated[
        Literal["cpu", "host", "gpu", "cuda", "rocm"] | None, BeforeValidator(_normalise_choice)
    ] = Field(None, validation_alias=AliasChoices("target-backends", "target_backend"))


class XlaSection(_MethodSection):
    """The method ``xla``: regions are compiled and run by the XLA of jaxlib."""

    estimator: ClassVar[str] = "xla"

    xla_translate_path: str | None = None
    hlo_runner_main_path: str | None = None
    sample: SampleOption = None
    translate: _XlaTranslateSection = _XlaTranslateSection.model_validate({})

    def to_estimator_settings(self) -> dict[str, Any]:
        target = self.translate.target_backends
        device = target and PLATFORMS.get(target, target)
        return _drop_empty_settings(repetitions=_read_repetitions(self.sample), device=device)

    def describe_ignored_keys(self) -> Iterator[str]:
        yield from _describe_sample_switch(self.sample)
        paths = {"xla_translate_path", "hlo_runner_main_path"} & self.model_fields_set
        if paths:
            yield f"{', '.join(sorted(paths))}: not needed, because jaxlib contains XLA"


class _IreeCompileSection(_HardwareModel):
    device: str | None = None
    target_backends: Annotated[
        Literal["llvm-cpu", "vmvx", "cuda", "rocm", "vulkan"] | None,
        BeforeValidator(_normalise_choice),
    ] = Field(None, alias="target-backends")
    extra_args: list[str] | str = Field("", alias="extra-args")
    extra_runtime_args: list[str] | str = Field("", alias="extra-runtime-args")


class IreeSection(_MethodSection):
    """The method ``iree``: regions are compiled by IREE and run."""

    estimator: ClassVar[str] = "iree"

    mlir_function_name: str | None = None
    iree_compile: str | None = None
    iree_benchmark: str | None = None
    compile: _IreeCompileSection = _IreeCompileSection.model_validate({})
    sample: SampleOption = None

    def to_estimator_settings(self) -> dict[str, Any]:
        flags = self.compile.extra_args
        return _drop_empty_settings(
            repetitions=_read_repetitions(self.sample),
            target=self.compile.target_backends,
            driver=self.compile.device,
            flags=flags if isinstance(flags, str) else " ".join(flags),
        )

    def describe_ignored_keys(self) -> Iterator[str]:
        yield from _describe_sample_switch(self.sample)
        paths = {"iree_compile", "iree_benchmark"} & self.model_fields_set
        if paths:
            yield f"{', '.join(sorted(paths))}: not needed, because IREE runs in process"
        if self.mlir_function_name is not None:
            yield "mlir_function_name: no effect, because a region has one function"
        if self.compile.extra_runtime_args:
            yield "extra-runtime-args: no effect, regions are run in process"


class _SimulatorSection(_MethodSection):
    """Base of the simulators; ``roofline`` has rates for other ops."""

    is_node: ClassVar[bool] = True

    roofline: PublishedHardware

    @property
    @abstractmethod
    def clock_hz(self) -> float:
        """The clock of the arrays and of the vector unit."""

    def to_estimator_settings(self) -> dict[str, Any]:
        return {**SYSTOLIC_UNIT, "clock_hz": self.clock_hz, "simulator_alone": True}

    def describe_ignored_keys(self) -> Iterator[str]:
        yield (
            "roofline: supplies peak rates and bandwidth; ops that are not matrix products run on "
            f"a vector unit of {SYSTOLIC_UNIT['lanes']} lanes"
        )


class CocossimSection(_SimulatorSection):
    """The method ``cocossim``: ``chips`` arrays of 128 x 128 in COCOSSim, ``frequency`` in GHz."""

    estimator: ClassVar[str] = "cocossim"

    cocossim_path: str | None = None
    frequency: Annotated[float, Field(gt=0, lt=_MOST_GHZ)] = 0.94
    chips: Annotated[int, Field(gt=0)] = 1

    @property
    def clock_hz(self) -> float:
        return self.frequency * 1e9

    def to_estimator_settings(self) -> dict[str, Any]:
        return super().to_estimator_settings() | _drop_empty_settings(
            cores=self.chips, binary=self.cocossim_path
        )


class _OnnxSection(_SimulatorSection):
    """Base of the simulators to which the published tools give ONNX, with ``frequency`` in Hz."""

    frequency: ClockFrequency = 1e9

    @property
    def clock_hz(self) -> float:
        return self.frequency if self.frequency >= _LEAST_HZ else self.frequency * 1e9

    def describe_ignored_keys(self) -> Iterator[str]:
        yield from super().describe_ignored_keys()
        if self.frequency < _LEAST_HZ:
            yield f"frequency: {self.frequency:g} is read as GHz; the published tools have Hz"


class OnnximSection(_OnnxSection):
    """The method ``onnxim``: ``device_path`` is the file that describes the cores to ONNXim."""

    estimator: ClassVar[str] = "onnxim"

    binary_path: str | None = None
    engine_path: str | None = None
    device_path: str | None = None
    output_dir: str | None = None
    conv_path: str | None = None
    model_list_path: str | None = None

    def to_estimator_settings(self) -> dict[str, Any]:
        folder = Path(self.device_path or "").parent
        home = self.engine_path or (str(folder.parent) if folder.name == "configs" else "")
        own_settings = _drop_empty_settings(
            binary=self.binary_path, config=self.device_path, home=home
        )
        return super().to_estimator_settings() | own_settings

    def describe_ignored_keys(self) -> Iterator[str]:
        yield from super().describe_ignored_keys()
        paths = {"output_dir", "conv_path", "model_list_path"} & self.model_fields_set
        if paths:
            yield (
                f"{', '.join(sorted(paths))}: no effect, because the files of a simulation are "
                "temporary"
            )
        yield "frequency: of the vector unit only; ONNXim's cores use core_freq of device_path"
        core_hz = self._read_core_clock_hz()
        if core_hz and abs(self.clock_hz / core_hz - 1) > 0.001:
            yield (
                f"frequency: {self.clock_hz / 1e9:g} GHz is not the {core_hz / 1e9:g} GHz of "
                f"core_freq; the published tool takes {core_hz / self.clock_hz:.3g} times as long "
                "for the same cycles"
            )

    def _read_core_clock_hz(self) -> float | None:
        """Return the clock of the cores of ``device_path``; None if the file does not say it."""
        try:
            core_mhz = configs.read_json(self.device_path or "").get("core_freq")
        except HespasError:  # the simulation reports it
            return None
        return core_mhz * 1e6 if isinstance(core_mhz, (int, float)) else None


class ZigzagSection(_OnnxSection):
    """The method ``zigzag_onnx``: ``accelerator`` and ``mapping`` are files or names of ZigZag."""

    estimator: ClassVar[str] = "zigzag"

    accelerator: str = ZIGZAG_DEFAULT
    mapping: str = ZIGZAG_DEFAULT

    def to_estimator_settings(self) -> dict[str, Any]:
        own_settings = {
            "accelerator": _find_zigzag_source(self.accelerator, "accelerator"),
            "mapping": _find_zigzag_source(self.mapping, "mapping"),
            "loops": "any",
        }
        return super().to_estimator_settings() | own_settings | ZIGZAG_BITS

    def describe_ignored_keys(self) -> Iterator[str]:
        yield from super().describe_ignored_keys()
        yield (
            f"zigzag_onnx: elements of any type have {ZIGZAG_BITS['element_bits']} bits in ZigZag, "
            f"and sums {ZIGZAG_BITS['sum_bits']}, as in the published tool"
        )


def _find_zigzag_source(file_or_name: str, kind: str) -> str:
    """Return the path of a file, or the name of a description that ZigZag ships.

    A published name ends in ``.yaml``. hespas has the descriptions that the published tool adds to
    those of ZigZag. The estimator reports a missing file, or that ZigZag is not installed.

    Args:
        kind: ``accelerator`` or ``mapping``.
    """
    path = Path(file_or_name)
    if path.is_file() or path.name != file_or_name:
        return str(path.absolute())
    own = configs.find_shipped_file(f"zigzag/{kind}s/{path.stem}.yml")
    if own is not None:
        return str(own)
    known = zigzag_worker.find_shipped_files(kind)
    return path.stem if known is None or path.stem in known else file_or_name


METHODS: dict[str, type[RooflineSection] | type[_MethodSection]] = {
    "roofline": RooflineSection,
    "xla": XlaSection,
    "iree": IreeSection,
    "cocossim": CocossimSection,
    "onnxim": OnnximSection,
    "zigzag": ZigzagSection,
    "zigzag_onnx": ZigzagSection,
}
