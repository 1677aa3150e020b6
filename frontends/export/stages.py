"""The stages of an exported module: lowered, partitioned, optimised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hespas.support.errors import HespasError

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.passes.base import PassRun

Stage = Literal["lowered", "partitioned", "optimised"]
STAGES: tuple[Stage, ...] = ("lowered", "partitioned", "optimised")
CPU = "cpu"


def advance_to_stage(
    module: ir.Module, stage: Stage, target: str, run: PassRun, options: str = ""
) -> None:
    """Bring a lowered module to ``stage``, in place.

    Args:
        module: The module as JAX lowered it.
        stage: The stage to reach.
        target: What XLA compiles for: ``cpu`` or a target description.
        run: Receives notes and warnings.
        options: Further options of the pass ``xla-optimize``.

    Raises:
        HespasError: If partitioning or optimisation fails.
    """
    if stage == "lowered":
        return
    if stage == "optimised":
        from hespas.passes import pipeline

        pass_options = f'target="{target}"{f",{options}" if options else ""}'
        pipeline.run_pipeline(module, f"xla-optimize{{{pass_options}}}", run)
        return
    from hespas.passes.prepare.census import collect_census
    from hespas.passes.prepare.partition import partition_module

    partition_module(module, collect_census(module), run, target)
    try:
        module.operation.verify()
    except Exception as error:
        first = str(error).strip().split("\n", 1)[0]
        raise HespasError(f"the export is not a valid module: {first}") from None
