// RUN: hespas-opt %s --fuse | filecheck %s --check-prefix=XLA
// RUN: hespas-opt %s --fuse=model=elementwise | filecheck %s --check-prefix=ELEMENTWISE
// RUN: hespas-opt %s --fuse=model=none | filecheck %s --check-prefix=NONE
// RUN: hespas-opt %s --fuse=max-buffers=3 | filecheck %s --check-prefix=BUFFERS
// RUN: hespas-opt %s --fuse=max-ops=2 | filecheck %s --check-prefix=SHORT
// RUN: hespas-opt %s --fuse --split-linear --roofline-annotate=node=A100_SXM_40GB | filecheck %s --check-prefix=FLOW
// RUN: not hespas-opt %s --fuse=model=tpu 2>&1 | filecheck %s --check-prefix=MODEL
// RUN: not hespas-opt %s --fuse=max-buffers=1 2>&1 | filecheck %s --check-prefix=FEW
// RUN: not hespas-opt %s --fuse=max-ops=0 2>&1 | filecheck %s --check-prefix=OPS
// RUN: not hespas-opt %s --fuse=combine=-1 2>&1 | filecheck %s --check-prefix=COMBINE
// RUN: not hespas-opt %s --fuse=combine-all-gather=-2 2>&1 | filecheck %s --check-prefix=GATHER
// RUN: not hespas-opt %s --fuse=conversions=some 2>&1 | filecheck %s --check-prefix=CONVERSIONS
// RUN: not hespas-opt %s --split-linear --fuse 2>&1 | filecheck %s --check-prefix=SPLIT

// XLA-COUNT-1: "mhlo.fusion"
// XLA: stablehlo.reduce(
// XLA-NOT: "mhlo.fusion"

/// Elementwise ops alone are fused: the reduction is a kernel of its own.

// ELEMENTWISE: %[[F:.*]] = "mhlo.fusion"(
// ELEMENTWISE: kLoop
// ELEMENTWISE: stablehlo.multiply
// ELEMENTWISE-NEXT: stablehlo.add
// ELEMENTWISE: stablehlo.reduce(%[[F]]
// ELEMENTWISE-NOT: "mhlo.fusion"

/// Without fusion the ops are only simplified.

// NONE-NOT: mhlo.copy
// NONE: stablehlo.multiply %arg0, %arg1
// NONE-NEXT: stablehlo.add
// NONE-NOT: mhlo.fusion

/// Two operands and one result, at most.

// BUFFERS: %[[M:.*]] = stablehlo.multiply %arg0, %arg1
// BUFFERS: "mhlo.fusion"(%[[M]], %arg2)

/// Few ops in a kernel; its end counts, and so does the constant.

// SHORT: %[[F:.*]] = "mhlo.fusion"(
// SHORT: stablehlo.multiply
// SHORT-NEXT: stablehlo.add
// SHORT: stablehlo.reduce(%[[F]]
// SHORT-NOT: "mhlo.fusion"

/// A fusion is one op to what follows.

// FLOW: "mhlo.fusion"
// FLOW: hespas.cost = {{{.*}}read_bytes = 12582912 : i64
// FLOW: hespas.kernel = {kind = "reduction"}
// FLOW: hespas.region = {{{.*}}id = {{[0-9]+}} : i64}

// MODEL: error: fuse: no model is called 'tpu'; known: elementwise, none, xla
// FEW: error: fuse: option 'max-buffers' is 1, less than 2
// OPS: error: fuse: option 'max-ops' is 0, less than 1
// COMBINE: error: fuse: option 'combine' is -1, less than 0
// GATHER: error: fuse: option 'combine-all-gather' is -2, less than -1
// CONVERSIONS: error: fuse: no conversions are called 'some'
// SPLIT: error: 'builtin.module': fuse: the module is already split
module @m {
  func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>, %z: tensor<1024x1024xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.multiply %x, %y : tensor<1024x1024xf32>
    %1 = mhlo.copy %0 : tensor<1024x1024xf32>
    %2 = stablehlo.add %1, %z : tensor<1024x1024xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    return %3 : tensor<1024xf32>
  }
}
