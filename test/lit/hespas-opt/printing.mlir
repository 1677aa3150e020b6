// RUN: hespas-opt %s --mlir-print-ir-before=cse --cse --disable-output 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: hespas-opt %s -p "func.func(canonicalize{max-iterations=2},cse)" --mlir-print-ir-before=cse --disable-output 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: hespas-opt %s --chlo-legalize-to-stablehlo --mlir-print-ir-after=chlo-legalize-to-stablehlo --disable-output 2>&1 | filecheck %s --check-prefix=IMPLICIT
// RUN: hespas-opt %s --canonicalize --cse --mlir-print-ir-before-all --disable-output 2>&1 | filecheck %s --check-prefix=BEFOREALL
// RUN: hespas-opt %s --canonicalize --cse --mlir-print-ir-after-change --disable-output 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: not hespas-opt %s --guest-drop-shape --cse --mlir-print-ir-after-failure 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: hespas-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=ALIAS
// RUN: hespas-opt %s --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=LOCAL
// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --typed-attributes --mlir-print-op-generic | filecheck %s --check-prefix=TYPEDGENERIC
// RUN: hespas-opt %s --split-individual --typed-attributes --mlir-print-debuginfo | filecheck %s --check-prefix=TYPEDLOC
// RUN: hespas-opt %s --split-individual --typed-attributes --mlir-print-ir-after=split-individual --disable-output 2>&1 | filecheck %s --check-prefix=TYPEDDUMP
// RUN: not hespas-opt %s --mlir-print-ir-after=prepare --cse 2>&1 | filecheck %s --check-prefix=UNPREPARED
// RUN: not hespas-opt %s --typed-attributes --emit-bytecode 2>&1 | filecheck %s --check-prefix=TYPEDBYTES
// RUN: not hespas-opt %s --split-input-file --emit-bytecode 2>&1 | filecheck %s --check-prefix=PARTBYTES
// RUN: hespas-opt %s --chlo-legalize-to-stablehlo --split-linear --dump-pass-pipeline --disable-output 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: hespas-opt --list-passes | filecheck %s --check-prefix=LIST

/// A pass that cannot run is none that can be printed after.
// UNPREPARED: error: --mlir-print-ir-after: 'prepare' is not in the pipeline

// BEFORE: IR Dump Before cse
// BEFORE: stablehlo.add
// BEFORE-NOT: IR Dump

/// A nested pass is found by its name; what is printed is before or after the whole nest.
// NESTED: IR Dump Before func.func(canonicalize{max-iterations=2},cse)
// IMPLICIT: IR Dump After func.func(chlo-legalize-to-stablehlo)

// BEFOREALL: IR Dump Before canonicalize
// BEFOREALL: IR Dump Before cse

/// canonicalize removes the op that nothing reads, after which cse has nothing to do.
// CHANGE: IR Dump After canonicalize
// CHANGE-NOT: IR Dump After cse

// FAILURE: IR Dump After guest-drop-shape Failed
// FAILURE: tensor<7xf32>
// FAILURE: error: pass 'guest-drop-shape' left an invalid module

// ALIAS: stablehlo.add {{.*}} loc(#loc
// LOCAL: stablehlo.add {{.*}} loc("{{.*}}printing.mlir":

// TYPEDGENERIC: "stablehlo.add"({{.*}}hespas.cost = #hespas.cost<estimator = "roofline"
// TYPEDLOC: stablehlo.add {{.*}}#hespas.region<id = 0 : i64{{.*}} loc(#loc
// TYPEDDUMP: IR Dump After split-individual
// TYPEDDUMP: #hespas.region<id = 0 : i64
// TYPEDBYTES: error: --typed-attributes is for text, and --emit-bytecode writes none
// PARTBYTES: error: --split-input-file is for text, and --emit-bytecode writes none

// DUMP: Pass Manager with 3 passes:
// DUMP-NEXT: builtin.module(func.func(chlo-legalize-to-stablehlo),prepare,split-linear)

// LIST: passes of hespas and of installed packages:
// LIST: --guest-mark {{ *}}Put a discardable attribute of another dialect on ops.
// LIST: --split-linear {{ *}}Outline each sequence
// LIST: passes of MLIR, StableHLO, mhlo and Shardy:
// LIST: --chlo-legalize-to-stablehlo {{ *}}on func.func
// LIST: --cse

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  %dead = stablehlo.tanh %0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
