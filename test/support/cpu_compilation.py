"""Options of XLA:CPU for programs that the tests run once: compilation is what takes their time."""

from __future__ import annotations

from typing import Any

from support.versions import JAXLIB

FAST_COMPILATION: dict[str, Any] = {
    # YNNPACK's fusions are off by up to 2e-3 of the result for some shapes.
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
if JAXLIB < (0, 11):  # later releases have no other emitters
    # The emitters of fusions that use MLIR take half to two thirds of the time of a compilation.
    FAST_COMPILATION["xla_cpu_use_fusion_emitters"] = False
    # Code in several parts, for several threads, takes a fifth of the processor time more.
    FAST_COMPILATION["xla_cpu_parallel_codegen_split_count"] = 1
