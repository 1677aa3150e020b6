// RUN: hespas-opt %s --select-platform=platform=cuda --split-input-file | filecheck %s
// RUN: not hespas-opt %s --select-platform=platform=rocm --split-input-file 2>&1 | filecheck %s --check-prefix=ROCM

/// A program that was exported for several platforms may have the same ops for all of them, and then no number. Its
/// arguments that stand for sizes are global constants of JAX, too.

// CHECK: module @equal attributes {hespas.facts = {model = "tiny"}}
// CHECK: func.func @main(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<8xf32>)
// ROCM: error: select-platform: platform=rocm, but the program is for one platform
module @equal attributes {hespas.facts = {exported_for = "cpu, cuda", model = "tiny"}} {
  func.func @main(%b: tensor<i32> {jax.global_constant = "b"}, %x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK: module @second
// CHECK: func.func @main(%[[B:.*]]: tensor<i32> {jax.global_constant = "b"}, %[[X:.*]]: tensor<8xf32>)
// CHECK-NOT: case
// CHECK: stablehlo.negate
module @second attributes {hespas.facts = {exported_for = "cpu, cuda"}} {
  func.func @main(%b: tensor<i32> {jax.global_constant = "b"}, %p: tensor<i32> {jax.global_constant = "_platform_index"}, %x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.case"(%p) ({
      stablehlo.return %x : tensor<8xf32>
    }, {
      %1 = stablehlo.negate %x : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) : (tensor<i32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
