// RUN: hespas-opt %s --prepare | filecheck %s

/// The passes behind it in `prepare` see a collective that StableHLO's form of an async op has contained.

// CHECK: "stablehlo.all_gather"
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>, is_async = true}
// CHECK: stablehlo.optimization_barrier
// CHECK-NOT: async_start
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      %1 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) : (tensor<4xf32>) -> !stablehlo.future<tensor<8xf32>>
    %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
