// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,stage=scheduled | filecheck %s
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB | filecheck %s --check-prefix=APART
// REQUIRES: gpu-compiler

/// In the program that runs, XLA has combined reduce-scatters, also along several dimensions. In that which it has
/// optimised they are apart, as in the published files.

// CHECK-NOT: "stablehlo.reduce_scatter"
// CHECK: @hespas_reduce_scatter
// CHECK-NOT: {{@hespas_reduce_scatter|"stablehlo.reduce_scatter"}}
// APART-NOT: @hespas_reduce_scatter
// APART-COUNT-2: "stablehlo.reduce_scatter"
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<16x64xf32>, tensor<64x16xf32>) {
    %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x64xf32>) -> tensor<16x64xf32>
    %1 = "stablehlo.reduce_scatter"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x64xf32>) -> tensor<64x16xf32>
    return %0, %1 : tensor<16x64xf32>, tensor<64x16xf32>
  }
}
