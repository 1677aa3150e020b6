// RUN: hespas-opt %s --xla-optimize=target=cpu --split-linear | filecheck %s

/// XLA:CPU needs no plugin; a module of one device's shapes is not partitioned again.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<64x128xf32>
// CHECK: call @region_0
// CHECK: "stablehlo.all_reduce"
// CHECK: func.func private @region_0
// CHECK: mhlo.fusion
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%x: tensor<64x128xf32>) -> tensor<64xf32> {
    %0 = stablehlo.exponential %x : tensor<64x128xf32>
    %1 = stablehlo.negate %0 : tensor<64x128xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x128xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %4 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    return %3 : tensor<64xf32>
  }
}
