// RUN: hespas-opt %s --prepare=platform=cuda | filecheck %s

/// Of a program that JAX has exported for several platforms, the ops of the others are left out before XLA divides the
/// shapes, and before branches are chosen by their weight.

// CHECK-NOT: hespas.facts
// CHECK: func.func @main(%[[X:[^:]*]]: tensor<4x8xf32>)
// CHECK-NEXT: stablehlo.abs
// CHECK-NEXT: return
module attributes {hespas.facts = {exported_for = "cpu, cuda"}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%platform: tensor<i32> {jax.global_constant = "_platform_index"},
                  %x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x8xf32> {
    %0 = "stablehlo.case"(%platform) ({
      %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }, {
      %1 = stablehlo.abs %x : tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }) : (tensor<i32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
