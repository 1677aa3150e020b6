"""The estimators of the published tools' configuration: the keys of each, and what they are here.

A ``hardware`` section is checked by the model of its method. That says which estimator stands for
the method, with which settings, and what of the section has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hespas.configs.models import PublishedHardware

# The unit beside a simulator: as the published tool has it in COCOSSim, one array of TPU v3.
UNIT = {"rows": 128, "columns": 128, "lanes": 1024, "sram_bytes": 8 << 20}
PLATFORMS = {"gpu": "cuda", "host": "cpu"}  # XLA's other names


def _single(value: Any) -> Any:
    """The one item of a list, in small letters."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value.lower() if isinstance(value, str) else value


def _given(**settings: Any) -> dict[str, Any]:
    """The settings that a section has."""
    return {name: value for name, value in settings.items() if value}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Method:
    """What a section is here: an ``estimator`` of ours; whether it ``is_node``, with rates."""

    estimator: ClassVar[str]
    is_node: ClassVar[bool] = False

    def settings(self) -> dict[str, Any]:
        """The settings of our estimator."""
        return {}

    def notes(self) -> Iterator[str]:
        """What of the section has no effect, or another one, a line each."""
        return iter(())


class Roofline(PublishedHardware, Method):
    """``roofline``: the rates of a device."""

    estimator: ClassVar[str] = "roofline"
    is_node: ClassVar[bool] = True

    def notes(self) -> Iterator[str]:
        if not self.warn_on_unknown_type:
            yield "warn_on_unknown_type: a type without a rate of its own is said at any rate"


class _Hardware(_Strict, Method):
    """Base of the other sections: the keys of every method."""

    type: str | None = None
    num_npus: Annotated[int, Field(gt=0)] | None = None
    cache_dir: str | None = None
    disable_cache: bool | None = None
    in_memory_only_cache: bool | None = None


class _Translate(_Strict):
    target_backends: Annotated[
        Literal["cpu", "host", "gpu", "cuda", "rocm"] | None, BeforeValidator(_single)
    ] = Field(None, alias="target-backends")


class Xla(_Hardware):
    """``xla``: regions compiled and run, here in process by jaxlib's XLA."""

    estimator: ClassVar[str] = "xla"

    xla_translate_path: str | None = None
    hlo_runner_main_path: str | None = None
    sample: Annotated[int, Field(gt=0)] | None = None
    translate: _Translate = _Translate.model_validate({})

    def settings(self) -> dict[str, Any]:
        target = self.translate.target_backends
        device = target and PLATFORMS.get(target, target)
        return _given(repetitions=self.sample, device=device)

    def notes(self) -> Iterator[str]:
        paths = {"xla_translate_path", "hlo_runner_main_path"} & self.model_fields_set
        if paths:
            yield f"{', '.join(sorted(paths))}: not needed, XLA is that of jaxlib"


class _Compile(_Strict):
    device: str | None = None
    target_backends: Annotated[
        Literal["llvm-cpu", "vmvx", "cuda", "rocm", "vulkan"] | None, BeforeValidator(_single)
    ] = Field(None, alias="target-backends")
    extra_args: list[str] | str = Field("", alias="extra-args")
    extra_runtime_args: list[str] | str = Field("", alias="extra-runtime-args")


class Iree(_Hardware):
    """``iree``: regions compiled by IREE and run."""

    estimator: ClassVar[str] = "iree"

    mlir_function_name: str | None = None
    compile: _Compile = _Compile.model_validate({})
    sample: Annotated[int, Field(gt=0)] | None = None

    def settings(self) -> dict[str, Any]:
        flags = self.compile.extra_args
        return _given(
            repetitions=self.sample,
            target=self.compile.target_backends,
            driver=self.compile.device,
            flags=flags if isinstance(flags, str) else " ".join(flags),
        )

    def notes(self) -> Iterator[str]:
        if self.mlir_function_name is not None:
            yield "mlir_function_name: a region has one function"
        if self.compile.extra_runtime_args:
            yield "extra-runtime-args: no effect, regions are run in process"


class _Simulator(_Hardware):
    """Base of the simulators: ``frequency`` in GHz, ``roofline`` for what is no matrix product."""

    is_node: ClassVar[bool] = True

    frequency: Annotated[float, Field(gt=0, lt=100)]
    roofline: PublishedHardware

    def settings(self) -> dict[str, Any]:
        return {**UNIT, "clock_hz": self.frequency * 1e9}

    def notes(self) -> Iterator[str]:
        yield (
            "roofline: gives the rates of types and the bandwidth; what is no matrix product runs "
            f"on a vector unit of {UNIT['lanes']} lanes"
        )


class Cocossim(_Simulator):
    """``cocossim``: ``chips`` arrays of 128 x 128 in COCOSSim."""

    estimator: ClassVar[str] = "cocossim"

    cocossim_path: str | None = None
    frequency: Annotated[float, Field(gt=0, lt=100)] = 0.94
    chips: Annotated[int, Field(gt=0)] = 1

    def settings(self) -> dict[str, Any]:
        return super().settings() | _given(cores=self.chips, binary=self.cocossim_path)


class Onnxim(_Simulator):
    """``onnxim``: ``device_path`` describes the cores to ONNXim."""

    estimator: ClassVar[str] = "onnxim"

    binary_path: str | None = None
    device_path: str | None = None

    def settings(self) -> dict[str, Any]:
        folder = Path(self.device_path or "").parent
        home = str(folder.parent) if folder.name == "configs" else ""
        found = _given(binary=self.binary_path, config=self.device_path, home=home)
        return super().settings() | found

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        yield "frequency: of the vector unit; ONNXim's cores have the core_freq of device_path"


class Zigzag(_Simulator):
    """``zigzag_onnx``: ``accelerator`` and ``mapping`` are ZigZag's files, or names it ships."""

    estimator: ClassVar[str] = "zigzag"

    accelerator: str | None = None
    mapping: str | None = None

    def settings(self) -> dict[str, Any]:
        found = _given(accelerator=self.accelerator, mapping=self.mapping)
        return super().settings() | found


METHODS: dict[str, type[Roofline] | type[_Hardware]] = {
    "roofline": Roofline,
    "xla": Xla,
    "iree": Iree,
    "cocossim": Cocossim,
    "onnxim": Onnxim,
    "zigzag": Zigzag,
    "zigzag_onnx": Zigzag,
}
