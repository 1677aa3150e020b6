"""The estimators in the configuration of the published tools.

The model of a method checks its section ``hardware``, and tells which estimator of hespas replaces
the method, with which settings, and which keys have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from hespas.configs.node_files import PublishedHardware

# The unit that a simulator models: one array of TPU v3, as in the published COCOSSim backend.
SYSTOLIC_UNIT = {"rows": 128, "columns": 128, "lanes": 1024, "sram_bytes": 8 << 20}
PLATFORMS = {"gpu": "cuda", "host": "cpu"}  # alternative names in XLA


def _normalise_choice(value: Any) -> Any:
    """Return a word, or the only item of a list, in lower case."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value.lower() if isinstance(value, str) else value


def _drop_empty_settings(**settings: Any) -> dict[str, Any]:
    """Select the settings that have a value."""
    return {name: value for name, value in settings.items() if value}


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


class _MethodSection(_HardwareModel, PublishedMethod):
    """Base of the other sections, with the keys that all methods have."""

    type: str | None = None
    num_npus: Annotated[int, Field(gt=0)] | None = None
    cache_dir: str | None = None
    disable_cache: bool | None = None
    in_memory_only_cache: bool | None = None


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
        if self.mlir_function_name is not None:
            yield "mlir_function_name: no effect, because a region has one function"
        if self.compile.extra_runtime_args:
            yield "extra-runtime-args: no effect, regions are run in process"


class _SimulatorSection(_MethodSection):
    """Base of the simulators; ``frequency`` is in GHz, ``roofline`` has rates for other ops."""

    is_node: ClassVar[bool] = True

    frequency: Annotated[float, Field(gt=0, lt=100)]
    roofline: PublishedHardware

    def to_estimator_settings(self) -> dict[str, Any]:
        return {**SYSTOLIC_UNIT, "clock_hz": self.frequency * 1e9}

    def describe_ignored_keys(self) -> Iterator[str]:
        yield (
            "roofline: supplies peak rates and bandwidth; ops that are not matrix products run on "
            f"a vector unit of {SYSTOLIC_UNIT['lanes']} lanes"
        )


class CocossimSection(_SimulatorSection):
    """The method ``cocossim``: ``chips`` arrays of 128 x 128 in COCOSSim."""

    estimator: ClassVar[str] = "cocossim"

    cocossim_path: str | None = None
    frequency: Annotated[float, Field(gt=0, lt=100)] = 0.94
    chips: Annotated[int, Field(gt=0)] = 1

    def to_estimator_settings(self) -> dict[str, Any]:
        return super().to_estimator_settings() | _drop_empty_settings(
            cores=self.chips, binary=self.cocossim_path
        )


class OnnximSection(_SimulatorSection):
    """The method ``onnxim``: ``device_path`` is the file that describes the cores to ONNXim."""

    estimator: ClassVar[str] = "onnxim"

    binary_path: str | None = None
    device_path: str | None = None

    def to_estimator_settings(self) -> dict[str, Any]:
        folder = Path(self.device_path or "").parent
        home = str(folder.parent) if folder.name == "configs" else ""
        own_settings = _drop_empty_settings(
            binary=self.binary_path, config=self.device_path, home=home
        )
        return super().to_estimator_settings() | own_settings

    def describe_ignored_keys(self) -> Iterator[str]:
        yield from super().describe_ignored_keys()
        yield "frequency: of the vector unit only; ONNXim's cores use core_freq of device_path"


class ZigzagSection(_SimulatorSection):
    """The method ``zigzag_onnx``: ``accelerator`` and ``mapping`` are files or names of ZigZag."""

    estimator: ClassVar[str] = "zigzag"

    accelerator: str | None = None
    mapping: str | None = None

    def to_estimator_settings(self) -> dict[str, Any]:
        own_settings = _drop_empty_settings(accelerator=self.accelerator, mapping=self.mapping)
        return super().to_estimator_settings() | own_settings


METHODS: dict[str, type[RooflineSection] | type[_MethodSection]] = {
    "roofline": RooflineSection,
    "xla": XlaSection,
    "iree": IreeSection,
    "cocossim": CocossimSection,
    "onnxim": OnnximSection,
    "zigzag": ZigzagSection,
    "zigzag_onnx": ZigzagSection,
}
