"""MaxText's own training step, from the installed MaxText (``hespas[maxtext]``)."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import logging
import math
import shlex
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.target_device import make_absent_devices
from hespas.recipes.standins import install_stand_ins
from hespas.support.errors import HespasError
from hespas.support.installed_extras import examine_extra

# Packages that MaxText imports for data, checkpoints, logging and cloud services.
NOT_NEEDED = (
    "PIL", "cloud_accelerator_diagnostics", "cloud_tpu_diagnostics", "datasets", "drjax",
    "google.api", "google.api_core", "google.auth", "google.cloud", "google_cloud_mldiagnostics",
    "grain", "huggingface_hub", "librosa", "ml_collections", "ml_goodput_measurement",
    "pathwaysutils", "requests", "safetensors", "sentencepiece", "sympy", "tensorboardX",
    "tensorflow", "tensorflow_datasets", "tensorflow_text", "tiktoken", "tokamax", "tokenizers",
    "torch", "transformers", "urllib3",
)  # fmt: skip
MESH = {"fsdp": 4}


def build(
    model: Annotated[str, "MaxText's configuration (a .yml file)"],
    mesh: Annotated[dict[str, int], "devices by axis; sets ici_AXIS_parallelism"] = MESH,
    options: Annotated[str, "further MaxText keys, as 'key=value key=value'"] = "",
) -> Exportable:
    """MaxText's own training step, from one of its configurations.

    Raises:
        HespasError: If MaxText or the file is missing, if the versions of MaxText and flax are
            incompatible, or if MaxText rejects the configuration.
    """
    if not Path(model).is_file():
        raise HespasError("there is no such configuration file", where=model)
    devices = make_absent_devices(math.prod(mesh.values()))
    platform = devices[0].platform
    hardware = f"hespas-{len(devices)}"
    keys = {
        "run_name": "hespas",
        "base_output_directory": "unused",
        "hardware": platform,
        "compile_topology": hardware,
        "compile_topology_num_slices": "1",
        "quantization_local_shard_count": str(len(devices)),
        "enable_checkpointing": "false",
        "ici_fsdp_parallelism": "1",  # MaxText's default uses all remaining devices
        **{f"ici_{axis}_parallelism": str(size) for axis, size in mesh.items()},
    }
    arguments = ["train_compile", model, *(f"{key}={value}" for key, value in keys.items())]
    with contextlib.redirect_stdout(io.StringIO()), _silence_logging():
        maxtext = _import_maxtext()
        maxtext.register_hardware(hardware, platform, len(devices))
        step = maxtext.capture_train_step([*arguments, *shlex.split(options)], devices)
    return step.to_exportable(mesh)


@dataclass(frozen=True)
class _MaxTextModules:
    """The modules of an installed MaxText, whose locations differ between releases."""

    train_compile: ModuleType
    hardware: ModuleType

    def register_hardware(self, name: str, platform: str, devices: int) -> None:
        """Register ``compile_topology=name``: one slice of ``devices`` devices."""
        kind = self.hardware.SystemCharacteristics
        characteristics = kind(platform, None, None, None, devices, None)
        self.hardware.UserFacingNameToSystemCharacteristics[name] = characteristics

    def capture_train_step(self, arguments: list[str], devices: list[Any]) -> _MaxTextStep:
        """Capture the step that MaxText's ahead-of-time compilation would compile."""
        captured_steps: list[_MaxTextStep] = []

        class StepCaptured(BaseException):
            """Leaves MaxText at the point where it would compile."""

        def capture_step(
            function: Any, args: Any, keywords: Any, mesh: Any, ins: Any, outs: Any,
            static: Any, donate: Any, *rest: Any,
        ) -> None:  # fmt: skip
            donated = (donate,) if isinstance(donate, int) else tuple(donate)
            if keywords or static:
                raise HespasError(
                    "this release of MaxText passes keyword or static arguments to its step"
                )
            captured_steps.append(
                _MaxTextStep(function, tuple(args), mesh, ins, outs, donated, rest[-1])
            )
            raise StepCaptured

        compiler: Any = self.train_compile
        compiler.get_topology_mesh = functools.partial(_make_device_mesh, devices=devices)
        compiler.jit_and_compile = capture_step
        try:
            compiler.main(arguments)
        except StepCaptured:
            pass
        except HespasError:
            raise
        except Exception as error:  # the message may list every known key
            message = textwrap.shorten(str(error), 200, placeholder=" ...")
            raise HespasError(f"MaxText: {message}", where=arguments[1]) from error
        if not captured_steps:
            raise HespasError("this release of MaxText ends without compiling a step")
        return captured_steps[0]


def _import_maxtext() -> _MaxTextModules:
    """Import MaxText; raises HespasError if it is not installed."""
    places = {
        "maxtext": ("trainers.pre_train.train_compile", "utils.accelerator_to_spec_map"),
        "MaxText": ("train_compile", "accelerator_to_spec_map"),  # until 0.1
    }
    package = next((name for name in places if importlib.util.find_spec(name)), None)
    if package is None:
        extra = examine_extra("maxtext")
        reason = f": {extra.problem}" if extra.needs else ""
        remedy = extra.remedy or "pip install 'hespas[maxtext]'"
        raise HespasError(f"MaxText is not installed{reason}", remedy=remedy)
    with install_stand_ins(NOT_NEEDED):
        return _MaxTextModules(
            *(importlib.import_module(f"{package}.{name}") for name in places[package])
        )


def _make_device_mesh(config: Any, devices: list[Any]) -> Mesh:
    """Make MaxText's mesh of absent devices; MaxText asks them only for their platform."""
    shape = list(config.ici_parallelism)
    if math.prod(shape) != len(devices):
        sizes = zip(config.mesh_axes, shape, strict=True)
        axis_sizes = ", ".join(f"{axis} {size}" for axis, size in sizes if size != 1)
        raise HespasError(
            f"the configuration's own parallelism does not fit --mesh: {axis_sizes}",
            remedy="remove the keys ici_*_parallelism, which --mesh sets",
        )
    return Mesh(np.array(devices, dtype=object).reshape(shape), tuple(config.mesh_axes))


@dataclass(frozen=True)
class _MaxTextStep:
    """A step as MaxText passes it to ``jax.jit``; the context ``rules`` names its axes."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    mesh: Mesh
    in_shardings: Any
    out_shardings: Any
    donate_argnums: tuple[int, ...]
    rules: Any

    def to_exportable(self, requested_mesh: dict[str, int]) -> Exportable:
        """Convert the step to shapes and shardings; raises HespasError if nothing is sharded."""
        args = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), self.args)
        state, batch = args[0], args[1]
        ins = jax.tree.map(_get_partition_spec, self.in_shardings)
        split = {
            axis
            for leaf in jax.tree.leaves(ins[0])
            for part in leaf
            for axis in _get_axis_names(part)
        }
        if math.prod(requested_mesh.values()) > 1 and set(requested_mesh) - {"data"} and not split:
            raise HespasError(
                f"MaxText {version('maxtext')} shards nothing with flax {version('flax')}",
                remedy="install compatible versions: MaxText 0.1.0 needs flax below 0.12.4",
            )

        @functools.wraps(self.function)
        def run_train_step(*args: Any) -> Any:
            # MaxText's own mesh: jax.shard_map compares it with the context's.
            mesh = self.mesh.abstract_mesh
            with jax.sharding.use_abstract_mesh(mesh), self.rules, _explain_missing_kernels():
                return self.function(*args)

        tokens = jax.tree.leaves(batch)[0]
        return Exportable(
            "train_step",
            run_train_step,
            args,
            mesh=dict(self.mesh.shape),
            in_shardings=ins,
            out_shardings=jax.tree.map(_get_partition_spec, self.out_shardings),
            donate_argnums=self.donate_argnums,
            facts={
                "parameters": _count_state_parameters(state),
                "tokens_per_step": math.prod(tokens.shape),
                "maxtext": version("maxtext"),
            },
        )


@contextlib.contextmanager
def _explain_missing_kernels() -> Iterator[None]:
    """Convert the errors of attention that needs a package or a device to ones with a remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise HespasError(
            f"MaxText's step needs the package '{error.name}', which is not installed",
            remedy="install it; on GPUs, attention=cudnn_flash_jax needs no further package",
        ) from error
    except NotImplementedError as error:
        if "Not supported on cpu" not in str(error):
            raise
        raise HespasError(
            "MaxText's step calls a kernel that needs its device to be present",
            remedy="name a TPU with --target; on GPUs, set attention=cudnn_flash_jax",
        ) from error


def _get_partition_spec(sharding: NamedSharding) -> Any:
    """Return the axes of a sharding without its devices.

    Raises:
        HespasError: The array stays in the memory of the host.
    """
    if sharding.memory_kind in ("pinned_host", "unpinned_host"):
        raise HespasError(
            "MaxText keeps parameters or states of the optimizer in the memory of the host, which "
            "this export cannot express",
            remedy="remove parameter_memory_host_offload and optimizer_memory_host_offload",
        )
    return sharding.spec


def _get_axis_names(part: Any) -> tuple[str, ...]:
    """Return the mesh axes along one dimension."""
    return part if isinstance(part, tuple) else (part,) if part is not None else ()


def _count_state_parameters(state: Any) -> int:
    """Count the parameters in a state of linen or of nnx."""
    params = state.params if hasattr(state, "params") else state.model
    leaves = [leaf for leaf in jax.tree.leaves(params) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return sum(math.prod(leaf.shape) for leaf in leaves)  # other leaves count random numbers


@contextlib.contextmanager
def _silence_logging() -> Iterator[None]:
    """Suppress MaxText's log of its settings and of every known key."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
