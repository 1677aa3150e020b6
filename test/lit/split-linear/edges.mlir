// RUN: hespas-opt %s --split-linear --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-linear --split-linear --split-input-file | filecheck %s

/// Without compute ops there is no region, and the module is split all the same.

// CHECK-LABEL: module @empty
// CHECK-SAME: hespas.split = {strategy = "linear"}
// CHECK-NOT: hespas.region
module @empty {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

/// A region has several results if several ops outside read them, and a small constant that nothing
/// else reads goes; one that is returned stays.

// CHECK-LABEL: module @results
// CHECK: func.func @main
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<2
// CHECK-NEXT: %[[R:.*]]:2 = call @region_0(
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[C]]
// CHECK: func.func private @region_0
// CHECK-NEXT: stablehlo.constant dense<1
module @results {
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %two = stablehlo.constant dense<2.0> : tensor<8xf32>
    %0 = stablehlo.add %x, %one : tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    return %0, %1, %two : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// The wait for an async collective ends a region as its start does.

// CHECK-LABEL: module @wait
// CHECK: "stablehlo.all_gather"
// CHECK: stablehlo.tanh {{.*}}id = 0
// CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
// CHECK-NEXT: stablehlo.negate {{.*}}id = 1
module @wait attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
    %s = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %t = stablehlo.tanh %x : tensor<4xf32>
    %d = "mhlo.async_done"(%s) : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %n = stablehlo.negate %d : tensor<8xf32>
    return %t, %n : tensor<4xf32>, tensor<8xf32>
  }
}
