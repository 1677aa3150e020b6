// RUN: hespas-opt %s --combine-collectives=limit=0,all-reduce=64 | filecheck %s --check-prefix=REDUCE
// RUN: hespas-opt %s --combine-collectives=limit=0,reduce-scatter=16 | filecheck %s --check-prefix=SCATTER
// RUN: hespas-opt %s --combine-collectives=all-reduce=0,reduce-scatter=15 | filecheck %s --check-prefix=NONE

/// Each kind has a limit of its own, of the bytes of its results.

// REDUCE-COUNT-1: "stablehlo.all_reduce"
// REDUCE-NOT: "stablehlo.all_reduce"
// REDUCE-COUNT-2: "stablehlo.reduce_scatter"
// SCATTER-COUNT-2: "stablehlo.all_reduce"
// SCATTER: @hespas_reduce_scatter
// NONE-COUNT-2: "stablehlo.all_reduce"
// NONE-COUNT-2: "stablehlo.reduce_scatter"
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<2xf32>
    %3 = "stablehlo.reduce_scatter"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<2xf32>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
