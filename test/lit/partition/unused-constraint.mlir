// RUN: hespas-opt %s --partition --split-input-file --verify-diagnostics | filecheck %s

/// XLA's partitioner removes a constraint whose result has no use, where Shardy's own passes would
/// divide the operand. The example is from tenstorrent/tt-mlir#4359.

// CHECK-LABEL: module @unused
// CHECK: @main(%{{.*}}: tensor<32x32xf32>, %{{.*}}: tensor<32x32xf32>) -> tensor<32x32xf32>
module @unused {
  sdy.mesh @mesh = <["x"=1, "y"=8]>
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    // expected-warning@below {{XLA ignores a sharding constraint whose result has no use: sdy.sharding_constraint}}
    %0 = sdy.sharding_constraint %x <@mesh, [{"x"}, {"y", ?}]> : tensor<32x32xf32>
    %1 = stablehlo.add %x, %y : tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

/// Nothing is lost if the constraint divides nothing, or another one divides the program.

// CHECK-LABEL: module @replicated
module @replicated {
  sdy.mesh @mesh = <["x"=1, "y"=8]>
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = sdy.sharding_constraint %x <@mesh, [{}, {}]> : tensor<32x32xf32>
    %1 = stablehlo.tanh %x : tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK-LABEL: module @used
// CHECK: @main(%{{.*}}: tensor<32x4xf32>) -> tensor<32x4xf32>
module @used {
  sdy.mesh @mesh = <["x"=1, "y"=8]>
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = sdy.sharding_constraint %x <@mesh, [{}, {"y"}]> : tensor<32x32xf32>
    %1 = sdy.sharding_constraint %x <@mesh, [{"y"}, {}]> : tensor<32x32xf32>
    %2 = stablehlo.tanh %0 : tensor<32x32xf32>
    return %2 : tensor<32x32xf32>
  }
}
