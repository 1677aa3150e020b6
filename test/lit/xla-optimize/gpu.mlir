// RUN: hespas-opt %s --split-input-file --xla-optimize=target=A100_SXM_40GB | filecheck %s
// REQUIRES: gpu-compiler

/// A chain of elementwise ops and a row sum of the same array are one kernel. What the module said of
/// its arguments stays, the body is XLA's.

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32
// CHECK: func.func @main(%[[X:.*]]: tensor<512x256xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<512x256xf32>, tensor<512xf32>)
// CHECK-NEXT: "mhlo.fusion"(%[[X]]) <{fusion_kind = #mhlo<fusion_kind kInput>}>
// CHECK: stablehlo.exponential
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{.*}}, %{{.*}} : tensor<512x256xf32>, tensor<512xf32>
// CHECK-NOT: mhlo.fusion
func.func public @main(%x: tensor<512x256xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<512x256xf32>, tensor<512xf32>) {
  %0 = stablehlo.exponential %x : tensor<512x256xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<512x256xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<512x256xf32>, tensor<f32>) -> tensor<512xf32>
  return %1, %2 : tensor<512x256xf32>, tensor<512xf32>
}

// -----

/// Global shapes are partitioned on the way; what several products and
/// sums need from other devices comes in one all-reduce.

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 4 : i32
// CHECK: func.func @main(%arg0: tensor<32x128xf32>, %arg1: tensor<128x64xf32>, %arg2: tensor<32x64xf32>)
// CHECK: "stablehlo.all_reduce"
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>
// CHECK-NOT: "stablehlo.all_reduce"
module attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %x: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %w: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
      %b: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.dot_general %x, %b, contracting_dims = [0] x [0] : (tensor<128x128xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
    %1 = stablehlo.add %0, %w : tensor<128x64xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<128x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %1, %2 : tensor<128x64xf32>, tensor<64xf32>
  }
}

// -----

/// An entry of another name, and an op that StableHLO does not have.

// CHECK-LABEL: module
// CHECK: func.func @main(
// CHECK-NEXT: mhlo.erf
func.func public @forward(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mhlo.erf %x : tensor<64xf32>
  %1 = mhlo.copy %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}
