"""IREE's compiler and runtime, for worker processes only, because the compiler may abort."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import capture_native_stderr, ir
from hespas.estimators.measure.failure import UnsupportedError
from hespas.estimators.rules.base import describe_element_type
from hespas.support.errors import HespasError, extract_first_line

MISSING = "install it: pip install 'hespas[iree]'"
LOCAL_TARGETS = ("llvm-cpu", "vmvx")  # compiler backends of the runtime's local devices
TARGET_DRIVERS = {"cuda": "cuda", "rocm": "hip", "vulkan": "vulkan"}  # target to runtime driver
ELEMENT_TYPE_NAMES = {
    "f64": "FLOAT_64", "f32": "FLOAT_32", "f16": "FLOAT_16", "bf16": "BFLOAT_16",
    "f8E4M3FN": "FLOAT_8_E4M3_FN", "f8E4M3FNUZ": "FLOAT_8_E4M3_FNUZ", "f8E5M2": "FLOAT_8_E5M2",
    "f8E5M2FNUZ": "FLOAT_8_E5M2_FNUZ", "f8E8M0FNU": "FLOAT_8_E8M0_FNU",
    "complex<f32>": "COMPLEX_64", "complex<f64>": "COMPLEX_128", "i1": "BOOL_8",
}  # fmt: skip


def choose_default_driver(target: str) -> str:
    """Return the runtime device that runs the code of a target."""
    return "local-task" if target in LOCAL_TARGETS else TARGET_DRIVERS[target]


def compile_to_bytecode(text: str, target: str, flags: Sequence[str]) -> bytes:
    """Compile a StableHLO module to bytecode of IREE.

    Raises:
        UnsupportedError: IREE cannot compile the module.
        HespasError: IREE is not installed, or a flag is wrong.
    """
    try:
        from iree.compiler import api
    except ImportError:
        raise HespasError("IREE's compiler is not installed", remedy=MISSING) from None
    session = api.Session()
    try:
        session.set_flags(*_list_target_flags(target), *flags)
    except ValueError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise HespasError(f"IREE rejects the flags: {lines[-1].strip()}") from None
    with capture_native_stderr() as printed_lines:
        invocation = session.invocation()
        invocation.enable_console_diagnostics()
        source = api.Source.wrap_buffer(session, text.encode() + b"\0")
        done = invocation.parse_source(source) and invocation.execute()
    if not done:
        errors = [line.partition("error:")[2].strip() for line in printed_lines if "error:" in line]
        why = errors[0] if errors else "it gives no reason"
        raise UnsupportedError(f"IREE does not compile it: {why}")
    output = api.Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


class IreeRuntime:
    """A device of IREE's runtime, such as ``local-task`` or ``cuda://0``."""

    def __init__(self, driver: str) -> None:
        try:
            import iree.runtime as runtime
        except ImportError:
            raise HespasError("IREE's runtime is not installed", remedy=MISSING) from None
        self.api = runtime
        self.driver = driver
        try:
            with capture_native_stderr():
                self.config = runtime.Config(driver)
        except Exception as error:  # the class depends on the driver
            known = ", ".join(runtime.query_available_drivers())
            reason = extract_first_line(str(error)).partition(". ")[0]
            message = f"IREE has no device '{driver}' here: {reason}"
            raise HespasError(message, remedy=f"its drivers are {known}") from None

    def query_device_name(self) -> str:
        """Return the name of the device that its driver reports."""
        devices = self.api.get_driver(self.driver.partition(":")[0]).query_available_devices()
        return str(devices[0].get("name", self.driver)) if devices else self.driver

    def load_bytecode(self, bytecode: bytes) -> tuple[Any, Any]:
        """Load a compiled module, and return its context and function ``main``."""
        instance = self.config.vm_instance
        module = self.api.VmModule.copy_buffer(instance, bytecode)
        context = self.api.VmContext(instance, [*self.config.default_vm_modules, module])
        return context, module.lookup_function("main")

    def allocate_zeros(self, type_: ir.Type) -> Any:
        """Allocate a buffer of zeros on the device; raises UnsupportedError for an unknown type."""
        import numpy

        kind = ir.RankedTensorType(type_)
        size = -(-math.prod(kind.shape) * describe_element_type(kind.element_type)[1] // 8)
        usage = self.api.BufferUsage.DEFAULT
        buffer: Any = self.config.device.allocator.allocate_buffer_copy(
            int(self.api.MemoryType.DEVICE_LOCAL), int(usage), self.config.device,
            numpy.zeros(max(size, 1), numpy.uint8),
        )  # fmt: skip
        return self.api.HalBufferView(
            buffer, list(kind.shape), self._find_element_type(kind.element_type)
        )

    def measure_run_s(self, loaded: tuple[Any, Any], inputs: Sequence[Any]) -> float:
        """Return the wall time of one run until its results are ready, in seconds."""
        context, function = loaded
        argument_list = self.api.VmVariantList(len(inputs))
        for value in inputs:
            argument_list.push_ref(value)
        result_list = self.api.VmVariantList(1)
        begun = time.perf_counter()
        context.invoke(function, argument_list, result_list)
        return time.perf_counter() - begun

    def _find_element_type(self, type_: ir.Type) -> int:
        spelled = str(type_)
        name = ELEMENT_TYPE_NAMES.get(spelled)
        if name is None and isinstance(type_, ir.IntegerType):
            name = f"INT_{type_.width}"  # signless, as in IREE's modules
        element_type = getattr(self.api.HalElementType, name or "", None)
        if element_type is None:
            raise UnsupportedError(f"IREE's runtime has no type for {spelled}")
        return int(element_type)


@functools.lru_cache(maxsize=4)
def open_runtime(driver: str) -> IreeRuntime:
    """Open a device, once per process; raises HespasError."""
    return IreeRuntime(driver)


def _list_target_flags(target: str) -> list[str]:
    if target in TARGET_DRIVERS:
        return [f"--iree-hal-target-device={TARGET_DRIVERS[target]}"]
    flags = ["--iree-hal-target-device=local", f"--iree-hal-local-target-device-backends={target}"]
    return [*flags, "--iree-llvmcpu-target-cpu=host"] if target == "llvm-cpu" else flags
