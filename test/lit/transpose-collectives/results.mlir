// RUN: hespas-opt %s --transpose-collectives | filecheck %s
// RUN: hespas-opt %s --transpose-collectives --transpose-collectives | filecheck %s
// RUN: hespas-opt %s --fuse | filecheck %s --check-prefix=FUSED

/// The transpose of a gradient that is a result comes before its all_reduce, so that the product makes it. A transpose
/// that other ops read too stays where it is, and so does one beside other readers of the all_reduce.

module @gradients attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[D]], dims = [1, 0] : (tensor<512x256xf32>) -> tensor<256x512xf32>
  // CHECK-NEXT: %[[A:.*]] = "stablehlo.all_reduce"(%[[T]])
  // CHECK: (tensor<256x512xf32>) -> tensor<256x512xf32>
  // CHECK-NEXT: %[[B:.*]] = "stablehlo.all_reduce"(%arg2)
  // CHECK: %[[BT:.*]] = stablehlo.transpose %[[B]]
  // CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[BT]]
  // CHECK-NEXT: %[[C:.*]] = "stablehlo.all_reduce"(%arg3)
  // CHECK: %[[CT:.*]] = stablehlo.transpose %[[C]]
  // CHECK-NEXT: return %[[A]], %[[BT]], %[[N]], %[[CT]], %[[C]]
  // FUSED: dot_general
  // FUSED-SAME: tensor<4x256x512xf32>
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024x256xf32>, %b: tensor<64x32xf32>, %c: tensor<64x32xf32>)
      -> (tensor<256x512xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<64x32xf32>) {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<1024x512xf32>, tensor<1024x256xf32>) -> tensor<512x256xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<512x256xf32>) -> tensor<512x256xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<512x256xf32>) -> tensor<256x512xf32>
    %3 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %5 = stablehlo.negate %4 : tensor<32x64xf32>
    %6 = "stablehlo.all_reduce"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %7 = stablehlo.transpose %6, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    return %2, %4, %5, %7, %6 : tensor<256x512xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<64x32xf32>
  }
}
