// RUN: hespas-opt %s --form-kernels | filecheck %s
// RUN: hespas-opt %s --form-kernels=model=elementwise | filecheck %s --check-prefix=ELEMENTWISE
// RUN: hespas-opt %s --form-kernels=max-buffers=3 | filecheck %s --check-prefix=BUFFERS
// RUN: hespas-opt %s --form-kernels=max-buffers=2 | filecheck %s --check-prefix=FEWER
// RUN: not hespas-opt %s --form-kernels=model=tpu 2>&1 | filecheck %s --check-prefix=MODEL
// RUN: not hespas-opt %s --form-kernels=max-buffers=1 2>&1 | filecheck %s --check-prefix=FEW

// CHECK-COUNT-1: "mhlo.fusion"
// CHECK: stablehlo.reduce(
// CHECK-NOT: "mhlo.fusion"

/// Elementwise ops alone are fused: the reduction is a kernel of its own.

// ELEMENTWISE: %[[F:.*]] = "mhlo.fusion"(
// ELEMENTWISE: kLoop
// ELEMENTWISE: stablehlo.multiply
// ELEMENTWISE-NEXT: stablehlo.add
// ELEMENTWISE: stablehlo.reduce(%[[F]]
// ELEMENTWISE-NOT: "mhlo.fusion"

/// Two operands and one result, at most; with fewer nothing is fused.

// BUFFERS: %[[M:.*]] = stablehlo.multiply %arg0, %arg1
// BUFFERS: "mhlo.fusion"(%[[M]], %arg2)
// FEWER-NOT: "mhlo.fusion"

// MODEL: error: form-kernels: no model is called 'tpu'; known: elementwise, xla
// FEW: error: form-kernels: option 'max-buffers' is 1, less than 2
module @m {
  func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>, %z: tensor<1024x1024xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.multiply %x, %y : tensor<1024x1024xf32>
    %2 = stablehlo.add %0, %z : tensor<1024x1024xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    return %3 : tensor<1024xf32>
  }
}
