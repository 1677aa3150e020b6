// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse=operands=any --split-input-file | filecheck %s --check-prefix=ANY
// RUN: not hespas-opt %s --fuse=operands=tiles 2>&1 | filecheck %s --check-prefix=NAME

/// Whether kernels transpose operands and pad images before the libraries of GPUs read them.

// CHECK: stablehlo.transpose
// CHECK: stablehlo.pad
// ANY-NOT: stablehlo.transpose
// ANY-NOT: stablehlo.pad
// NAME: fuse: no readers of operands are called 'tiles'; known: any, libraries
func.func @main(%q: tensor<2x16x3x8xf32>, %k: tensor<2x24x3x8xf32>, %x: tensor<2x16x4xf32>, %w: tensor<3x4x4xf32>) -> (tensor<2x3x16x24xf32>, tensor<2x16x4xf32>) {
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x3x8xf32>, tensor<2x24x3x8xf32>) -> tensor<2x3x16x24xf32>
  %1 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x16x4xf32>
  return %0, %1 : tensor<2x3x16x24xf32>, tensor<2x16x4xf32>
}

// -----

/// The collectives of GPUs run along the major dimension.

// CHECK: stablehlo.all_gather{{.*}}all_gather_dim = 0
// ANY: stablehlo.all_gather{{.*}}all_gather_dim = 1
// ANY-NOT: stablehlo.transpose
module @collectives attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%w: tensor<1024x256xf32>) -> tensor<1024x1024xf32> {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x256xf32>) -> tensor<1024x1024xf32>
    return %g : tensor<1024x1024xf32>
  }
}
