"""``--xla-optimize``: optimisation with XLA for a target device, without that device.

XLA:TPU returns a program only after its whole compilation, so that both stages are the scheduled
program of a TPU.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hespas.configs import list_preset_names
from hespas.configs.framework_flags import CUBLAS_ONLY, FRAMEWORK_FLAGS, find_framework_flags
from hespas.dialects.mlir import find_ops, ir
from hespas.dialects.op_kinds import FUSION, find_entry_function, name_in_both
from hespas.dialects.program_facts import read_program_facts, write_program_facts
from hespas.dialects.xla import (
    CompilationSettings,
    describe_gpu_plugin_mismatch,
    hlo_proto_to_text,
)
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.compile.compiler_estimates import (
    attach_compiler_estimates,
    name_memory_facts,
)
from hespas.passes.compile.compiler_process import (
    DEVICES_PER_HOST,
    CompiledModule,
    CompileFailure,
    CompileRequest,
    compile_module,
)
from hespas.passes.compile.hlo_origin import LATENCY_HIDING, SCHEDULER
from hespas.passes.compile.rematerialisation import MEMORY_LIMIT
from hespas.passes.optimize import xla_flags as xla
from hespas.passes.optimize.compiler_input import prepare_for_compiler
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.inline_calls import warn_of_unfused_composites
from hespas.passes.prepare.partition import check_arguments_divided, replace_program
from hespas.passes.prepare.replace_host_placements import count_host_placements, warn_of_lost_copies
from hespas.passes.prepare.select_platform import select_platform
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from hespas.configs.compile_targets import CompileTarget

OPTIMISED_FOR = "optimised_for"  # the fact that names the target
XLA_FLAGS = "xla_flags"  # the fact of the flags that were chosen, with where they are from
DOTS = name_in_both("dot dot_general")
ASYNC_CHOICES = ["keep", "hide", "remove"]
MAX_TIMEOUT_S = 1e7
# JAX's allocator takes 75 % of a GPU's memory (docs.jax.dev, "GPU memory allocation"), and its
# client states that limit to XLA's scheduler and rematerialisation.
MEMORY_FRACTION = 0.75
XLA_FLAG_PRESETS = ", ".join(list_preset_names("xla_flags"))


@dataclass(frozen=True)
class XlaOptimization:
    """The result of the pass: target name, number of devices, and XLA's time in seconds."""

    target: str
    devices: int
    seconds: float


@dataclass(frozen=True)
class XlaOptimizePass(Pass):
    """Optimise the program with XLA for a CPU, GPU or TPU; the device is not needed.

    XLA runs in a separate process: fusion, library calls, combined collectives. A program with
    global shapes is partitioned first. This pass must precede all others.
    """

    name: ClassVar[str] = "xla-optimize"

    target: str = option(
        "", "device to compile for: cpu, a name of `hespas presets targets`, or a file"
    )
    stage: str = option(
        "hlo",
        "hlo: optimised, not scheduled, with reduce-scatters one by one, as the published files; "
        "scheduled: every kernel in its order (TPUs: always)",
    )
    async_collectives: str = option(
        "remove",
        "keep: asynchronous collectives as XLA plans them; hide: as its latency-hiding scheduler "
        "does, which is off by default on GPUs before Hopper and always on for TPUs; remove: every "
        "collective is serial, and XLA's latency-hiding scheduler is disabled on GPUs",
    )
    triton_gemm: bool = option(True, "use Triton for matrix products; false: cuBLAS where possible")
    autotune: bool = option(False, "let XLA choose kernels by its tables; it cannot measure")
    disable: str = option("", "passes of XLA to disable, separated by commas")
    framework: str = option(
        "", f"the framework whose flags XLA gets on a GPU: {', '.join(FRAMEWORK_FLAGS)}"
    )
    preset: str = option("", f"a named set of XLA flags: {XLA_FLAG_PRESETS}")
    flags: str = option("", "further XLA flags, separated by spaces")
    dims: str = option("", "sizes of symbolic dimensions, as in prepare")
    devices: int = option(0, "required number of devices; 0: the module's own", least=0)
    devices_per_host: int = option(DEVICES_PER_HOST, "maximum number of GPUs of a host", least=1)
    memory_fraction: float = option(
        MEMORY_FRACTION,
        "share of a GPU's memory that XLA schedules for, as XLA_PYTHON_CLIENT_MEM_FRACTION of JAX",
    )
    slices: int = option(0, "number of slices of TPUs; 0: the fewest")
    timeout: float = option(1800.0, "seconds after which XLA is stopped")
    keep_hlo: str = option("", "folder in which to keep XLA's HLO text")

    def apply(self, module: ir.Module, run: PassRun) -> XlaOptimization:
        from hespas.configs import compile_targets  # it adds to every start-up

        self._check_options()
        target = compile_targets.load_compile_target(self.target)
        start = time.monotonic()
        select_platform(module, target.platform)
        warn_of_unfused_composites(collect_census(module), run)
        census, compilation = prepare_for_compiler(module, self.dims, self.devices, run)
        host_placements = count_host_placements(census)
        request = self._build_request(target, compilation)
        try:
            answer = compile_module(module, request)
        except CompileFailure as error:
            raise _to_compile_error(module, target, compilation, str(error)) from None
        if compilation.spmd:
            check_arguments_divided(module, census.entry, find_entry_function(answer.module))
        facts = read_program_facts(module)
        replace_program(module, answer.module, compilation)
        warn_of_lost_copies(module, host_placements, run)
        if target.tpu is not None:
            attach_compiler_estimates(module, target.tpu.clock_ghz)
        plan = name_memory_facts(module, answer.memory_plan)
        if limit_bytes := target.compute_memory_limit(self.memory_fraction):
            plan[MEMORY_LIMIT] = limit_bytes
        schedule = read_program_facts(answer.module)
        self._warn_of_ignored_flag(schedule.get(SCHEDULER), run)
        self._warn_of_untuned_products(module, run)
        flags = self._describe_flags()
        write_program_facts(
            module, {**facts, **schedule, **plan, **flags, OPTIMISED_FOR: target.name}
        )
        if self.keep_hlo:
            self._write_hlo_text(answer)
        return XlaOptimization(target.name, compilation.device_count, time.monotonic() - start)

    def _build_request(
        self, target: CompileTarget, compilation: CompilationSettings
    ) -> CompileRequest:
        """Build the request for the compiler; raises HespasError."""
        from hespas.configs import tpu_targets

        topology = None
        if target.tpu is not None:
            count = compilation.device_count
            topology = tpu_targets.choose_tpu_topology(target.tpu, count, self.slices)
        elif self.slices:
            raise UsageError("xla-optimize: option 'slices' is for TPUs")
        stage = xla.CPU_STAGE if target.is_cpu else xla.STAGES[self.stage]
        if topology is not None:
            stage = xla.CompileStage("", "")
        return CompileRequest(
            compilation,
            stage.passes,
            stage.wanted,
            scheduled=self.stage == "scheduled",
            keep_async=self.async_collectives != "remove",
            target=target.limit_memory(self.memory_fraction),
            tpu=topology,
            devices_per_host=self.devices_per_host,
            flags=self._build_xla_flags(target, compilation),
            timeout_s=self.timeout,
        )

    def _check_options(self) -> None:
        if not self.target:
            raise UsageError(
                "xla-optimize: option 'target' is missing",
                remedy="see `hespas presets targets`, or cpu",
            )
        for name, value, known in (
            ("stage", self.stage, list(xla.STAGES)),
            ("async-collectives", self.async_collectives, ASYNC_CHOICES),
        ):
            if value not in known:
                raise UsageError(
                    f"xla-optimize: option '{name}' takes {' or '.join(known)}, not '{value}'",
                    remedy=suggest_nearest(value, known),
                )
        if self.framework:
            find_framework_flags(self.framework)
        if not 0 < self.memory_fraction <= 1:
            raise UsageError(
                f"xla-optimize: option 'memory-fraction' is {self.memory_fraction:g}",
                remedy="give a share of the memory, more than 0 and at most 1",
            )
        if not 0 < self.timeout <= MAX_TIMEOUT_S:
            raise UsageError(f"xla-optimize: option 'timeout' is {self.timeout:g} seconds")

    def _build_xla_flags(self, target: CompileTarget, compilation: CompilationSettings) -> str:
        """Build XLA_FLAGS from the flags of hespas, then those of the preset, then the user's.

        Those of a TPU are libtpu's, which disable no passes.
        """
        disabled = [name.strip() for name in self.disable.split(",")]
        user_flags = self.list_user_flags()
        if self.framework and target.proto is None:
            raise UsageError(
                "xla-optimize: option 'framework' is for GPUs",
                remedy="a script for a TPU may set flags: see the option 'preset'",
            )
        if target.tpu is not None:
            if any(disabled):
                raise UsageError("xla-optimize: option 'disable' is not for TPUs")
            return " ".join(user_flags)
        if target.is_cpu:
            if self.async_collectives == "hide":
                raise UsageError(
                    "xla-optimize: option 'async-collectives' is hide, and XLA:CPU hides none",
                    remedy="choose keep or remove",
                )
            if not compilation.spmd:
                disabled += xla.PARTITIONER
            return xla.join_xla_flags(user_flags, disabled)
        hespas_flags: list[str] = []
        if not self.autotune:
            hespas_flags.append(f"{xla.AUTOTUNE_FLAG}=0")
            disabled.append(xla.AUTOTUNER)
        if not self.triton_gemm:
            hespas_flags.append(CUBLAS_ONLY)
        disabled += xla.INEXPRESSIBLE
        if self.stage == "hlo":
            disabled += xla.COMBINERS
        if self.async_collectives == "remove":
            hespas_flags.append(xla.SERIAL_FLAG)
            disabled += [xla.ASYNC_PASS, xla.LATENCY_HIDING_PASS]
        elif self.async_collectives == "hide":
            hespas_flags.append(f"{xla.LATENCY_HIDING_FLAG}=true")
        return xla.join_xla_flags([*hespas_flags, *user_flags], disabled)

    def list_user_flags(self) -> list[str]:
        """List the flags of the framework, of the preset, then those of the option ``flags``.

        Of several values of a flag, XLA uses the last.
        """
        from hespas.configs import compile_targets

        flags: list[str] = []
        if self.framework:
            own = find_framework_flags(self.framework)
            flags += [
                *(compile_targets.read_xla_flags(own.preset) if own.preset else ()),
                *own.flags,
            ]
        if self.preset:
            flags += compile_targets.read_xla_flags(self.preset)
        return [*flags, *xla.split_xla_flags(self.flags)]

    def _describe_flags(self) -> dict[str, str]:
        """Describe the flags of XLA that were chosen, and the disabled passes, as a fact."""
        flags = self.list_user_flags()
        if disabled := [name.strip() for name in self.disable.split(",") if name.strip()]:
            flags.append(f"{xla.DISABLE}={','.join(disabled)}")
        if not self.triton_gemm:
            flags.append(CUBLAS_ONLY)
        if not flags:
            return {}
        names = (f"{name} {value}" for name, value in
                 (("framework", self.framework), ("preset", self.preset)) if value)  # fmt: skip
        prefix = ", ".join(names)
        return {XLA_FLAGS: f"{prefix}: {' '.join(flags)}" if prefix else " ".join(flags)}

    def _warn_of_ignored_flag(self, scheduler: object, run: PassRun) -> None:
        """Warn if the latency-hiding scheduler has run although its flag is off.

        XLA:GPU of jax 0.10 runs it from Hopper on whatever the flag says.
        """
        if scheduler == LATENCY_HIDING and xla.is_flag_off(
            self.list_user_flags(), xla.LATENCY_HIDING_FLAG
        ):
            run.warn(
                f"the flag {xla.LATENCY_HIDING_FLAG.removeprefix('--')}=false has no effect: this "
                "XLA has used its latency-hiding scheduler all the same; it is disabled by "
                f"disable={xla.LATENCY_HIDING_PASS}, or by async-collectives=remove (--overlap "
                "none of hespas run), which keeps every collective serial too"
            )

    def _warn_of_untuned_products(self, module: ir.Module, run: PassRun) -> None:
        """Warn of products of Triton whose tiles a flag leaves as they are, untuned.

        Without a GPU, XLA tunes nothing in any case: estimates are of kernels that a GPU tunes.
        """
        if not xla.is_flag_off(self.list_user_flags(), xla.AUTOTUNE_FLAG):
            return
        count = sum(
            "kCustom" in str(fusion.attributes["fusion_kind"]) and bool(find_ops(fusion, DOTS))
            for fusion in find_ops(module.operation, (FUSION,))
        )
        if count:
            run.warn(
                f"{count} x a product in a kernel of Triton, which is estimated as if XLA had "
                f"tuned it on the device; {xla.AUTOTUNE_FLAG}=0 leaves it a default tile, which "
                f"can take several times as long: {CUBLAS_ONLY} leaves products to cuBLAS"
            )

    def _write_hlo_text(self, answer: CompiledModule) -> None:
        from pathlib import Path

        from hespas.support.folder_manifest import OutputSet
        from hespas.support.output_folder import open_output_folder

        with open_output_folder(Path(self.keep_hlo), OutputSet(f"hlo {self.stage}")) as fresh:
            (fresh / f"{self.stage}.hlo").write_text(hlo_proto_to_text(answer.hlo), "utf-8")


def _to_compile_error(
    module: ir.Module, target: CompileTarget, compilation: CompilationSettings, why: str
) -> HespasError:
    remedy = describe_gpu_plugin_mismatch() if target.proto is not None else ""
    if target.tpu is not None and compilation.partitions > 1 and not compilation.spmd:
        remedy = (
            "XLA:TPU divides a program by its shardings itself, and compiles none that was divided "
            "before: give it the program before partitioning, with the shardings of its arguments"
        )
    return HespasError(
        f"XLA could not optimise the module for {target.name}: {why.rstrip('.')}",
        op=module.operation,
        remedy=remedy,
    )
