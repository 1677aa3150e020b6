"""The passes of MLIR, StableHLO, MHLO and Shardy that the bindings may have.

The bindings do not list their passes, so that the names are stated here; ``list_native_passes``
leaves out those that the installed version lacks. Passes that are not listed here can be used too.
"""

from __future__ import annotations

import re

from hespas.dialects.mlir import PassManager, ir, make_context, register_passes
from hespas.dialects.op_kinds import qualify_op_names

MODULE = "builtin.module"
NAMES = qualify_op_names(
    "",
    """
    bubble-down-memory-space-casts canonicalize composite-fixed-point-pass control-flow-sink cse
    generate-runtime-verification inline loop-invariant-code-motion
    loop-invariant-subset-hoisting mem2reg print-ir print-op-stats remove-dead-values sccp
    snapshot-op-locations sroa strip-debuginfo symbol-dce symbol-privatize topological-sort
    trivial-dce view-op-graph chlo-legalize-to-high-level-mhlo chlo-legalize-to-hlo
    chlo-legalize-to-stablehlo expand-hlo-tuples hlo-legalize-to-stablehlo
    mhlo-collapse-elementwise-map mhlo-flatten-tuple mhlo-legalize-dot-to-dot-general
    mhlo-legalize-einsum-to-dot-general mhlo-legalize-torch-index-select-to-gather
    mhlo-legalize-trigonometric-to-approximation mhlo-sink-constants-to-control-flow
    mhlo-test-infer-shaped-type-methods mhlo-test-materialize-broadcasts
    mhlo-test-unfuse-batch-norm sdy-add-data-flow-edges sdy-add-func-data-flow-edges
    sdy-aggressive-propagate sdy-apply-sharding-constraints sdy-basic-propagate
    sdy-close-shardings sdy-constant-or-scalar-merger sdy-constant-or-scalar-splitter
    sdy-convert-global-to-local sdy-drop-sharding-and-mesh sdy-drop-sharding-rules
    sdy-explicit-gather-scatter-batching sdy-export-named-computations sdy-export-pipeline
    sdy-flatten-call-graph sdy-import-func-calls sdy-import-pipeline sdy-inline-meshes
    sdy-insert-explicit-reshards sdy-insert-func-call-reshards sdy-lift-inlined-meshes
    sdy-manual-axes-cleanup sdy-op-priority-propagate sdy-pad-for-divisibility
    sdy-populate-op-sharding-rules sdy-pre-order-funcs sdy-propagate-sharding-from-func-to-call
    sdy-propagate-to-func-results sdy-propagation-pipeline
    sdy-remove-all-gather-reduce-scatter-for-cmv1 sdy-remove-propagation-debug-info
    sdy-remove-sharding-groups sdy-remove-size-one-axes
    sdy-remove-sub-axes-in-input-output-shardings sdy-reshard-to-collectives
    sdy-resolve-permutation-factors sdy-sharding-constraint-to-reshard sdy-sharding-group-import
    sdy-sink-data-flow-edges sdy-sink-func-data-flow-edges sdy-unflatten-call-graph
    sdy-update-non-divisible-input-output-shardings sdy-user-priority-propagate
    shape-legalize-to-stablehlo stablehlo-canonicalize-dynamism stablehlo-check-shape-assertions
    stablehlo-compatibility-expander stablehlo-complex-math-expander
    stablehlo-convert-to-signless stablehlo-legalize-composite-to-call
    stablehlo-legalize-deprecated-ops stablehlo-legalize-qdq-to-quantized-op
    stablehlo-legalize-quant-to-math stablehlo-legalize-quantized-op-to-qdq
    stablehlo-legalize-to-hlo stablehlo-legalize-to-linalg stablehlo-legalize-to-vhlo
    stablehlo-refine-arguments stablehlo-refine-shapes stablehlo-wrap-in-composite
    vhlo-legalize-to-stablehlo vhlo-to-version xla-prepare-for-export
    xla-sdy-round-trip-import-shardy-attrs
    """,
)
# What MLIR says of a pass that must be nested: the op that the pass runs on.
_RESTRICTED = r"restricted to '([\w.]+)'"
# A pipeline that `inline` runs on the functions that it has inlined.
_DEFAULT_PIPELINE = r"\bdefault-pipeline=((?:[^\s{}]|\{(?:[^{}]|\{[^{}]*\})*\})+)"
_EXPANDER_TARGET = r"\bstablehlo-compatibility-expander\{target=([^\s{}]*)"


def list_native_passes(context: ir.Context) -> list[tuple[str, str]]:
    """List the native passes of the installed bindings, with the op that each runs on."""
    register_passes()
    passes = []
    for name in sorted(NAMES):
        try:
            passes.append((name, add_native_pass(PassManager(MODULE, context), name)))
        except ValueError:
            continue
    return passes


def add_native_pass(manager: PassManager, text: str) -> str:
    """Add a native pass to a manager of modules, nested on the op that it is restricted to.

    MLIR's command-line tools nest passes so, and textual pipelines do not.

    Returns:
        The op that the pass runs on.

    Raises:
        ValueError: MLIR rejects the text.
    """
    try:
        manager.add(text)
        return MODULE
    except ValueError as error:
        restricted = re.search(_RESTRICTED, str(error))
        if restricted is None:
            raise
    manager.add(f"{restricted[1]}({text})")
    return restricted[1]


def check_unchecked_options(text: str) -> None:
    """Check the options that MLIR reads only while a pass runs, which then ignores wrong ones.

    Raises:
        ValueError, MLIRError: An option cannot be read.
    """
    for pipeline in re.findall(_DEFAULT_PIPELINE, text):
        inner = pipeline[1:-1] if pipeline.startswith("{") else pipeline
        PassManager("func.func", make_context()).add(inner)
    for version in re.findall(_EXPANDER_TARGET, text):
        with make_context(), ir.Location.unknown():
            manager = PassManager(MODULE)
            manager.add(f"vhlo-to-version{{target={version}}}")
            manager.run(ir.Module.create().operation)
