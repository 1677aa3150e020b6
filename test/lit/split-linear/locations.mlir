// RUN: hespas-opt %s --split-linear --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s

/// Equal regions share a function with the locations of the first; each call has that of the first
/// heavy op of its own region, or of its first op.
// CHECK: call @region_0({{.*}} loc("layer0/dot")
// CHECK: stablehlo.all_reduce
// CHECK: call @region_0({{.*}} loc("layer1/dot")
// CHECK: func.func private @region_0
// CHECK-NEXT: stablehlo.tanh {{.*}} loc("layer0/tanh")
// CHECK-NEXT: stablehlo.dot_general {{.*}} loc("layer0/dot")
// CHECK-NOT: layer1

module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.tanh %x : tensor<4x4xf32> loc("layer0/tanh")
    %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("layer0/dot")
    %2 = "stablehlo.all_reduce"(%1) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %q = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %q : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.tanh %2 : tensor<4x4xf32> loc("layer1/tanh")
    %4 = stablehlo.dot_general %3, %3, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("layer1/dot")
    return %4 : tensor<4x4xf32>
  }
}
