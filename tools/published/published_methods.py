"""The estimators of the published tools' configuration: the keys of each, and what they are here.

A ``hardware`` section is checked by the model of its method. That says which estimator stands for
the method, with which settings, and what of the section has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hespas.configs.file_models import PublishedHardware

# The unit beside a simulator: as the published tool has it in COCOSSim, one array of TPU v3.
SYSTOLIC_UNIT = {"rows": 128, "columns": 128, "lanes": 1024, "sram_bytes": 8 << 20}
PLATFORMS = {"gpu": "cuda", "host": "cpu"}  # XLA's other names


def _normalise_choice(value: Any) -> Any:
    """The one item of a list, in small letters."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value.lower() if isinstance(value, str) else value


def _drop_empty_settings(**settings: Any) -> dict[str, Any]:
    """The settings that a section has."""
    return {name: value for name, value in settings.items() if value}


class _HardwareModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PublishedMethod:
    """What a section is here: an ``estimator`` of ours; whether it ``is_node``, with rates."""

    estimator: ClassVar[str]
    is_node: ClassVar[bool] = False

    def to_estimator_settings(self) -> dict[str, Any]:
        """The settings of our estimator."""
        return {}

    def describe_ignored_keys(self) -> Iterator[str]:
        """What of the section has no effect, or another one, a line each."""
        return iter(())


class RooflineSection(PublishedHardware, PublishedMethod):
    """``roofline``: the rates of a device."""

    estimator: ClassVar[str] = "roofline"
    is_node: ClassVar[bool] = True

    def describe_ignored_keys(self) -> Iterator[str]:
        if not self.warn_on_unknown_type:
            yield "warn_on_unknown_type: a type without a rate of its own is said at any rate"


class _MethodSection(_HardwareModel, PublishedMethod):
    """Base of the other sections: the keys of every method."""

    type: str | None = None
    num_npus: Annotated[int, Field(gt=0)] | None = None
    cache_dir: str | None = None
    disable_cache: bool | None = None
    in_memory_only_cache: bool | None = None


class _XlaTranslateSection(_HardwareModel):
    target_backends: Annotated[
        Literal["cpu", "host", "gpu", "cuda", "rocm"] | None, BeforeValidator(_normalise_choice)
    ] = Field(None, alias="target-backends")


class XlaSection(_MethodSection):
    """``xla``: regions compiled and run, here in process by jaxlib's XLA."""

    estimator: ClassVar[str] = "xla"

    xla_translate_path: str | None = None
    hlo_runner_main_path: str | None = None
    sample: Annotated[int, Field(gt=0)] | None = None
    translate: _XlaTranslateSection = _XlaTranslateSection.model_validate({})

    def to_estimator_settings(self) -> dict[str, Any]:
        target = self.translate.target_backends
        device = target and PLATFORMS.get(target, target)
        return _drop_empty_settings(repetitions=self.sample, device=device)

    def describe_ignored_keys(self) -> Iterator[str]:
        paths = {"xla_translate_path", "hlo_runner_main_path"} & self.model_fields_set
        if paths:
            yield f"{', '.join(sorted(paths))}: not needed, XLA is that of jaxlib"


class _IreeCompileSection(_HardwareModel):
    device: str | None = None
    target_backends: Annotated[
        Literal["llvm-cpu", "vmvx", "cuda", "rocm", "vulkan"] | None,
        BeforeValidator(_normalise_choice),
    ] = Field(None, alias="target-backends")
    extra_args: list[str] | str = Field("", alias="extra-args")
    extra_runtime_args: list[str] | str = Field("", alias="extra-runtime-args")


class IreeSection(_MethodSection):
    """``iree``: regions compiled by IREE and run."""

    estimator: ClassVar[str] = "iree"

    mlir_function_name: str | None = None
    compile: _IreeCompileSection = _IreeCompileSection.model_validate({})
    sample: Annotated[int, Field(gt=0)] | None = None

    def to_estimator_settings(self) -> dict[str, Any]:
        flags = self.compile.extra_args
        return _drop_empty_settings(
            repetitions=self.sample,
            target=self.compile.target_backends,
            driver=self.compile.device,
            flags=flags if isinstance(flags, str) else " ".join(flags),
        )

    def describe_ignored_keys(self) -> Iterator[str]:
        if self.mlir_function_name is not None:
            yield "mlir_function_name: a region has one function"
        if self.compile.extra_runtime_args:
            yield "extra-runtime-args: no effect, regions are run in process"


class _SimulatorSection(_MethodSection):
    """Base of the simulators: ``frequency`` in GHz, ``roofline`` for what is no matrix product."""

    is_node: ClassVar[bool] = True

    frequency: Annotated[float, Field(gt=0, lt=100)]
    roofline: PublishedHardware

    def to_estimator_settings(self) -> dict[str, Any]:
        return {**SYSTOLIC_UNIT, "clock_hz": self.frequency * 1e9}

    def describe_ignored_keys(self) -> Iterator[str]:
        yield (
            "roofline: gives the rates of types and the bandwidth; what is no matrix product runs "
            f"on a vector unit of {SYSTOLIC_UNIT['lanes']} lanes"
        )


class CocossimSection(_SimulatorSection):
    """``cocossim``: ``chips`` arrays of 128 x 128 in COCOSSim."""

    estimator: ClassVar[str] = "cocossim"

    cocossim_path: str | None = None
    frequency: Annotated[float, Field(gt=0, lt=100)] = 0.94
    chips: Annotated[int, Field(gt=0)] = 1

    def to_estimator_settings(self) -> dict[str, Any]:
        return super().to_estimator_settings() | _drop_empty_settings(
            cores=self.chips, binary=self.cocossim_path
        )


class OnnximSection(_SimulatorSection):
    """``onnxim``: ``device_path`` describes the cores to ONNXim."""

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
        yield "frequency: of the vector unit; ONNXim's cores have the core_freq of device_path"


class ZigzagSection(_SimulatorSection):
    """``zigzag_onnx``: ``accelerator`` and ``mapping`` are ZigZag's files, or names it ships."""

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
