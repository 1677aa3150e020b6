// RUN: hespas-opt %s --select-platform=platform=cuda | filecheck %s
// RUN: hespas-opt %s --select-platform=platform=cuda --select-platform | filecheck %s
// RUN: hespas-opt %s --select-platform=platform=tpu | filecheck %s --check-prefix=TPU

/// JAX numbers the platforms in the order of its option, and reads the number by one case for each choice:
/// first which of the function's own choices the platform is, then the ops of that choice. Functions take the
/// number as their first argument.

// CHECK: module attributes {hespas.facts = {model = "tiny"}}
// CHECK: func.func @main(%[[X:.*]]: tensor<8x8xf32> {jax.arg_info = "x"}, %[[N:.*]]: tensor<i32>) -> tensor<8x8xf32>
// CHECK-NOT: case
// CHECK: %[[Y:.*]] = stablehlo.cosine %[[X]]
// CHECK: %[[Z:.*]] = call @inner(%{{.*}}, %[[Y]])
/// What depends on data remains.
// CHECK: "stablehlo.case"(%[[N]])
// CHECK: func.func private @inner
// CHECK-NOT: case
// CHECK: stablehlo.negate
// CHECK: return

// TPU: func.func @main(
// TPU: stablehlo.sine
// TPU: call @inner
// TPU: func.func private @inner
// TPU: stablehlo.abs
// TPU-NOT: stablehlo.negate
module attributes {hespas.facts = {exported_for = "cpu, tpu, cuda", model = "tiny"}} {
  func.func @main(%platform: tensor<i32> {jax.global_constant = "_platform_index"},
                  %x: tensor<8x8xf32> {jax.arg_info = "x"}, %n: tensor<i32>) -> tensor<8x8xf32> {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %choice = "stablehlo.case"(%platform) ({
      stablehlo.return %zero : tensor<i32>
    }, {
      stablehlo.return %zero : tensor<i32>
    }, {
      stablehlo.return %one : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %y = "stablehlo.case"(%choice) ({
      %0 = stablehlo.sine %x : tensor<8x8xf32>
      stablehlo.return %0 : tensor<8x8xf32>
    }, {
      %0 = "stablehlo.case"(%platform) ({
        stablehlo.return %x : tensor<8x8xf32>
      }, {
        stablehlo.return %x : tensor<8x8xf32>
      }, {
        %1 = stablehlo.cosine %x : tensor<8x8xf32>
        stablehlo.return %1 : tensor<8x8xf32>
      }) : (tensor<i32>) -> tensor<8x8xf32>
      stablehlo.return %0 : tensor<8x8xf32>
    }) : (tensor<i32>) -> tensor<8x8xf32>
    %z = func.call @inner(%platform, %y) : (tensor<i32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %w = "stablehlo.case"(%n) ({
      stablehlo.return %z : tensor<8x8xf32>
    }, {
      stablehlo.return %y : tensor<8x8xf32>
    }) : (tensor<i32>) -> tensor<8x8xf32>
    return %w : tensor<8x8xf32>
  }
  func.func private @inner(%platform: tensor<i32>, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = "stablehlo.case"(%platform) ({
      stablehlo.return %x : tensor<8x8xf32>
    }, {
      %1 = stablehlo.abs %x : tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }, {
      %1 = stablehlo.negate %x : tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }) : (tensor<i32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
