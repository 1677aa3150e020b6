// RUN: hespas-opt %s --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARNING
// RUN: hespas-opt %s --annotate-collectives=devices=4 --split-input-file | filecheck %s --check-prefix=FOUR
// RUN: hespas-opt %s --annotate-collectives=replicas=4 --split-input-file | filecheck %s --check-prefix=FOUR

/// Collectives without groups are between all devices. What they join says how many these are;
/// otherwise one is assumed, with a warning, unless the option says how many.

// WARNING: warning: stablehlo.all_reduce ({{.*}}): all devices communicate, and the module does not state how many there are: one is assumed
// WARNING-NOT: warning

// CHECK-LABEL: module @unknown
// CHECK-SAME: devices = 1
// FOUR-LABEL: module @unknown
// FOUR-SAME: "1" = array<i64: 0, 1, 2, 3>
// FOUR-SAME: devices = 4 : i64, partitions = 1 : i64, replicas = 4
// FOUR: hespas.comm = {groups = array<i64: 1>}
module @unknown {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<> : tensor<0x0xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @gathered
// CHECK-SAME: devices = 4
// CHECK: "stablehlo.all_gather"{{.*}}hespas.comm = {groups = array<i64: 1>}
// FOUR-LABEL: module @gathered
// FOUR-SAME: devices = 4
module @gathered {
  func.func @main(%x: tensor<2x4xf32>) -> tensor<8x4xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<> : tensor<0x0xi64>}> : (tensor<2x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// CHECK-LABEL: module @scattered
// CHECK-SAME: devices = 4
module @scattered {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<2x4xf32> {
    %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<> : tensor<0x0xi64>, scatter_dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// -----

/// With a channel, they are between all replicas and partitions, beside collectives of partitions.

// CHECK-LABEL: module @channel
// CHECK-SAME: devices = 4 : i64, partitions = 4
// CHECK: "stablehlo.all_gather"{{.*}}hespas.comm = {groups = array<i64: 1>}
module @channel {
  func.func @main(%x: tensor<2x4xf32>) -> tensor<8x4xf32> {
    %0 = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<> : tensor<0x0xi64>}> : (tensor<2x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
