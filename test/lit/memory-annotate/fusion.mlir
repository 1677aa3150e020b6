// RUN: hespas-opt %s --split-input-file --memory-annotate | filecheck %s
// RUN: hespas-opt %s --split-input-file --memory-annotate=model-fusion=false | filecheck %s --check-prefix=PLAIN

/// A fusion is one kernel: what is inside takes no memory. The second is elementwise and writes
/// over the result of the first, the third reduces and cannot.
// CHECK: module @fused
// CHECK-SAME: live_bytes = 8320 : i64
// CHECK-SAME: timeline_bytes = array<i64: 8192, 8192, 8320, 4224>
// PLAIN: module @fused
// PLAIN-SAME: live_bytes = 8320 : i64
module @fused {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32xf32> {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>):
      %1 = stablehlo.multiply %a, %a : tensor<32x32xf32>
      %2 = stablehlo.add %1, %a : tensor<32x32xf32>
      mhlo.return %2 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %3 = "mhlo.fusion"(%0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>):
      %1 = stablehlo.tanh %a : tensor<32x32xf32>
      mhlo.return %1 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %4 = "mhlo.fusion"(%3) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
    ^bb0(%a: tensor<32x32xf32>):
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
      mhlo.return %1 : tensor<32xf32>
    }) : (tensor<32x32xf32>) -> tensor<32xf32>
    return %4 : tensor<32xf32>
  }
}

// -----

/// Nothing is fused yet: square and sum would be one kernel, so that of 4 KB each nothing is kept.
// CHECK: module @loose
// CHECK-SAME: live_bytes = 4100 : i64
// CHECK-SAME: points = 2 : i64
// PLAIN: module @loose
// PLAIN-SAME: live_bytes = 8196 : i64
// PLAIN-SAME: points = 4 : i64
module @loose {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.multiply %x, %x : tensor<32x32xf32>
    %1 = stablehlo.tanh %0 : tensor<32x32xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}

// -----

/// An async collective reads its operand until it is waited for, and the views of a buffer are it.
// CHECK: module @views
// CHECK-SAME: live_bytes = 24576 : i64
module @views attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<2048xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<32x32xf32>) -> tensor<1024xf32>
    %2 = "mhlo.async_start"(%1) {called_computation = @gather, execution_thread = "main"} : (tensor<1024xf32>) -> !mhlo.async_bundle<tensor<1024xf32>, tensor<2048xf32>>
    %3 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %4 = stablehlo.dot_general %3, %x, contracting_dims = [1] x [1] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = "mhlo.async_done"(%2) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<1024xf32>, tensor<2048xf32>>) -> tensor<2048xf32>
    %6 = stablehlo.reshape %4 : (tensor<32x32xf32>) -> tensor<1024xf32>
    %i = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.dynamic_update_slice %5, %6, %i : (tensor<2048xf32>, tensor<1024xf32>, tensor<i32>) -> tensor<2048xf32>
    return %7 : tensor<2048xf32>
  }
  func.func private @gather(%x: tensor<1024xf32>) -> tensor<2048xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<1024xf32>) -> tensor<2048xf32>
    return %0 : tensor<2048xf32>
  }
}
