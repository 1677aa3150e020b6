// RUN: hespas-opt %s --annotate-collectives --split-input-file | filecheck %s

/// Shardings have said which devices there are, and are dropped.

// CHECK-LABEL: module @first
// CHECK: stablehlo.tanh %arg0 : tensor<8x4xf32>
module @first attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{replicated}"} : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

/// Those that another pass has written since then stay.

// CHECK-LABEL: module @later
// CHECK: stablehlo.tanh %arg0 {mhlo.sharding = "{replicated}"} : tensor<8x4xf32>
module @later attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}, mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{replicated}"} : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
