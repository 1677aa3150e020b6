// RUN: hespas-opt %s --prepare --split-input-file | filecheck %s
// RUN: hespas-opt %s --prepare --prepare --split-input-file | filecheck %s

/// Each pass leaves what the next one needs: the deprecated sum is partitioned, ops of chlo are expanded in the
/// shapes of one device, the marker between slice and placement goes, and so does the call between them; the bound
/// of the loop comes in by the call, and the branch that sends in that loop is chosen.

// CHECK-LABEL: module @chain
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK-SAME: hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}
// CHECK-NEXT: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[K:.*]]: tensor<i32>, %{{.*}}: tensor<i1>) -> tensor<1x8xf32>
// CHECK: stablehlo.multiply %[[X]], %[[X]] : tensor<4x8xf32>
// CHECK: "stablehlo.if"
// CHECK: stablehlo.while
// CHECK-SAME: hespas.trips = 3 : i64
// CHECK: "stablehlo.all_gather"
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>}
// CHECK: hespas.branch = 1 : i64
// CHECK: stablehlo.custom_call @hespas_fetch(%{{.*}}, %[[K]], %{{.*}}) {hespas.comm = {network = "host"}}
// CHECK-NOT: custom_call
// CHECK-NOT: func.func
module @chain attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %k: tensor<i32>, %p: tensor<i1>) -> tensor<1x8xf32> {
    %0 = sdy.manual_computation(%x, %k, %p) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, []>, <@mesh, []>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%y: tensor<4x8xf32>, %j: tensor<i32>, %q: tensor<i1>) {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %s = chlo.square %y : tensor<4x8xf32> -> tensor<4x8xf32>
      %1 = "stablehlo.if"(%q) ({
        %2 = stablehlo.tanh %s : tensor<4x8xf32>
        %3 = stablehlo.tanh %2 : tensor<4x8xf32>
        stablehlo.return %3 : tensor<4x8xf32>
      }, {
        %2 = func.call @exchange(%s, %n) : (tensor<4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
        stablehlo.return %2 : tensor<4x8xf32>
      }) : (tensor<i1>) -> tensor<4x8xf32>
      %4 = func.call @slice(%1, %j) : (tensor<4x8xf32>, tensor<i32>) -> tensor<1x8xf32>
      %5 = stablehlo.custom_call @LayoutConstraint(%4) : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %6 = stablehlo.custom_call @MoveToDevice(%5) : (tensor<1x8xf32>) -> tensor<1x8xf32>
      sdy.return %6 : tensor<1x8xf32>
    } : (tensor<8x8xf32>, tensor<i32>, tensor<i1>) -> tensor<1x8xf32>
    return %0 : tensor<1x8xf32>
  }
  func.func private @exchange(%x: tensor<4x8xf32>, %n: tensor<i32>) -> tensor<4x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4x8xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %g = "stablehlo.all_gather"(%v) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<8x8xf32>
      %w = stablehlo.slice %g [0:4, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<4x8xf32>
    }
    return %r#1 : tensor<4x8xf32>
  }
  func.func private @slice(%x: tensor<4x8xf32>, %k: tensor<i32>) -> tensor<1x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %x, %k, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    return %0 : tensor<1x8xf32>
  }
}

// -----

/// A deprecated sum is partitioned like any all-reduce.

// CHECK-LABEL: module @sum
// CHECK: func.func @main(%{{.*}}: tensor<4xf32>)
// CHECK: "stablehlo.all_reduce"
// CHECK: hespas.comm = {groups = array<i64: 1, 2>}
module @sum attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
    %0 = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A function with a symbolic dimension that nothing calls is no obstacle.

// CHECK-LABEL: module @uncalled
// CHECK: func.func @main
// CHECK-NOT: func.func
module @uncalled {
  func.func @main() { return }
  func.func @other(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }
}
