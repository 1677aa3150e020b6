// RUN: hespas-opt %s --xla-optimize=target=cpu --split-input-file | filecheck %s

/// A cross-replica sum is an all-reduce, whose groups say how many replicas there are.

// CHECK-LABEL: module @sum
// CHECK-SAME: mhlo.num_replicas = 2 : i32
// CHECK: "stablehlo.all_reduce"(%arg0)
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1]]>
module @sum {
  func.func public @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %0 = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64x128xf32>) -> tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
}

// -----

/// An all-reduce of two values with a channel, for whose tuple XLA finds no layout, is two, which it may combine again.

// CHECK-LABEL: module @variadic
// CHECK: "stablehlo.all_reduce"(%arg0{{[,)]}}
module @variadic attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%x: tensor<64xf32>, %y: tensor<32xf32>) -> (tensor<64xf32>, tensor<32xf32>) {
    %0:2 = "stablehlo.all_reduce"(%x, %y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<32xf32>) -> (tensor<64xf32>, tensor<32xf32>)
    return %0#0, %0#1 : tensor<64xf32>, tensor<32xf32>
  }
}

// -----

/// XLA reads no constants in the resources of a module, as PyTorch's exporters write weights.

// CHECK-LABEL: module @resource
// CHECK: stablehlo.constant dense<[1.000000e+00, 2.000000e+00]>
module @resource {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}
{-#
  dialect_resources: {
    builtin: {
      w: "0x040000000000803F00000040"
    }
  }
#-}

// -----

/// Layouts that XLA's importer has written say how XLA made an op, and are assigned again.

// CHECK-LABEL: module @imported
module @imported attributes {mhlo.is_dynamic = false} {
  // CHECK: stablehlo.tanh %{{[a-z0-9]*}} : tensor<4x8xf32>
  func.func public @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.tanh %x {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[4,8]{0,1}"} : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

/// A mesh of one device divides nothing.

// CHECK-LABEL: module @one_device
module @one_device attributes {mhlo.num_partitions = 1 : i32} {
  // CHECK: func.func @main(%{{[a-z0-9]*}}: tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: stablehlo.maximum
  // CHECK-NOT: sdy
  sdy.mesh @mesh = <["x"=1]>
  func.func public @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %zero = sdy.constant dense<0.0> : tensor<8x8xf32>
    %0 = stablehlo.maximum %x, %zero : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Ops of shapes are computed before.

// CHECK-LABEL: module @shape_ops
module @shape_ops {
  // CHECK: stablehlo.tanh
  // CHECK-NOT: shape.
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %s = shape.shape_of %x : tensor<4xf32> -> tensor<1xindex>
    %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0] : (tensor<4xf32>, tensor<1xindex>) -> tensor<4xf32>
    %1 = stablehlo.tanh %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
