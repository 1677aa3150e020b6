"""The device that a program is lowered for, as the program and its libraries see it.

A program may depend on its device: Pallas and other libraries of kernels choose by the kind of the
device, and frameworks by the platform of the devices of their mesh. During an export no such device
is present. JAX answers the first from the abstract device of the context's mesh, which this module
finds for a target; absent devices in a mesh answer the second.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs import compile_targets
from hespas.dialects.mlir import ir, read_frontend_items, write_frontend_items
from hespas.dialects.op_kinds import DECLARED_COST

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jax.experimental.pallas import CostEstimate
    from jax.sharding import AbstractDevice
    from jax.stages import Lowered, Traced

# A recent device of each platform, for exports that name no target.
ASSUMED_TARGETS = {"cuda": "H100_80GB", "tpu": "TPUv6e"}
# What ``jax.Device.platform`` says of the platforms that JAX lowers for.
DEVICE_PLATFORMS = {"cuda": "gpu", "rocm": "gpu"}


def find_target_device(platform: str, target: str = "") -> AbstractDevice | None:
    """Return JAX's description of the devices of a target.

    Args:
        platform: The platform that JAX lowers for.
        target: A target of that platform; "" for a recent one.

    Returns:
        None for a platform of which no target is known, and for the CPU, which is present.

    Raises:
        HespasError: There is no such target, or its file does not name the device.
    """
    from jax.sharding import AbstractDevice

    name = target or ASSUMED_TARGETS.get(platform)
    if name is None or name == compile_targets.CPU:
        return None
    kind, cores = compile_targets.load_compile_target(name).describe_device()
    return AbstractDevice(kind, cores, DEVICE_PLATFORMS.get(platform, platform))


def enter_target_device(device: AbstractDevice | None) -> AbstractContextManager[Any]:
    """Let JAX answer questions for the device where a program has no mesh, or none yet."""
    from jax.sharding import AbstractMesh, use_abstract_mesh

    return use_abstract_mesh(AbstractMesh((), (), abstract_device=device))


def lower_traced(traced: Traced, platform: str, device: AbstractDevice | None = None) -> Lowered:
    """Lower a traced program for a platform whose devices and runtime need not be present.

    JAX asks the runtime for callbacks to the host only, such as those of ``jax.debug.print``, and
    refuses one of another platform.

    Args:
        traced: The program.
        platform: The platform that JAX lowers for.
        device: The device that kernels of Pallas see; None for a recent one.
    """
    from jax._src.interpreters import mlir

    context_class: Any = mlir.ModuleContext
    get_present_backend = context_class.get_backend

    def get_backend(context: Any, optional: bool = False) -> Any:
        try:
            return get_present_backend(context, optional)
        except (ValueError, RuntimeError):  # of another platform, or none
            return _AbsentClient(platform)

    context_class.get_backend = get_backend
    try:
        with _adapt_kernels(platform, device):
            return traced.lower(lowering_platforms=(platform,))
    finally:
        context_class.get_backend = get_present_backend


@contextlib.contextmanager
def _adapt_kernels(platform: str, device: AbstractDevice | None) -> Iterator[None]:
    """Lower Pallas kernels for a device, and write their ``cost_estimate`` on their calls.

    A kernel asks the mesh around it for its device. That of a ``jax.shard_map`` has none, or those
    of this machine. JAX writes costs for TPUs only.
    """
    from jax._src.interpreters import mlir

    pallas: Any = sys.modules.get("jax._src.pallas.pallas_call")
    if pallas is None:  # the program has no such kernel
        yield
        return
    lower_kernel = pallas._pallas_call_lowering
    target_device = device or find_target_device(platform)

    def lower_with_cost(ctx: Any, *values: Any, **parameters: Any) -> Any:
        with _enter_mesh_of_device(target_device):
            results = lower_kernel(ctx, *values, **parameters)
        cost = parameters.get("cost_estimate")
        if cost is not None:
            for value in results:
                _write_declared_cost(value.owner, cost)
        return results

    pallas._pallas_call_lowering = lower_with_cost  # which other primitives call
    mlir.register_lowering(pallas.pallas_call_p, lower_with_cost)
    try:
        yield
    finally:
        pallas._pallas_call_lowering = lower_kernel
        mlir.register_lowering(pallas.pallas_call_p, lower_kernel)


def _enter_mesh_of_device(device: AbstractDevice | None) -> AbstractContextManager[Any]:
    """Let the context's mesh answer for ``device`` if its own devices are of another platform."""
    from jax.sharding import get_abstract_mesh, use_abstract_mesh

    mesh = get_abstract_mesh()
    if device is None or getattr(mesh.abstract_device, "platform", None) == device.platform:
        return contextlib.nullcontext()
    return use_abstract_mesh(mesh.update(abstract_device=device))


def _write_declared_cost(owner: Any, cost: CostEstimate) -> None:
    """Write a cost on the op that runs a kernel, as a frontend attribute, which XLA keeps."""
    op: ir.Operation = getattr(owner, "operation", owner)
    if op.name == "stablehlo.custom_call":
        fields = ("flops", "bytes_accessed", "transcendentals")
        text = json.dumps({name: int(getattr(cost, name)) for name in fields})
        items = {**read_frontend_items(op), DECLARED_COST: ir.StringAttr.get(text, op.context)}
        write_frontend_items(op, items)


@dataclass(frozen=True)
class _AbsentClient:
    """The backend of absent devices.

    It belongs to another process than they do: JAX asks devices of its own process for their
    memories, which these cannot answer.
    """

    platform: str
    runtime_type: str = "absent"

    def process_index(self) -> int:
        return AbsentDevice.process_index + 1

    def make_python_callback_from_host_send_and_recv(self, *_: Any) -> None:
        """Stand for a callback, which nothing calls because the program is not run."""


class AbsentDevice:
    """A device of a mesh that JAX and programs ask for its properties, and never run on."""

    process_index = 0

    def __init__(self, number: int, device: AbstractDevice | None = None) -> None:
        """Make a device of the kind of ``device``; None stands for a CPU."""
        self.id = self.local_hardware_id = number
        self.platform = device.platform if device else "cpu"
        self.device_kind = device.device_kind if device else "cpu"
        self.num_cores = self.core_count = device.num_cores if device else None
        self.client = _AbsentClient(self.platform)


def make_absent_devices(count: int) -> list[Any]:
    """Make ``count`` devices of the kind that the context's mesh names, for ``jax.sharding.Mesh``.

    Programs over such a mesh can be lowered, but neither compiled nor run.
    """
    from jax.sharding import get_abstract_mesh

    device = get_abstract_mesh().abstract_device
    return [AbsentDevice(number, device) for number in range(count)]
