// RUN: hespas-opt %s --prepare --split-input-file | filecheck %s

/// The deprecated form of an all_reduce, in both dialects.

// CHECK-LABEL: module @sums
// CHECK-SAME: devices = 2 : i64
// CHECK-COUNT-2: "stablehlo.all_reduce"({{.*}}replica_groups = dense<{{\[\[}}0, 1]]>
// CHECK-NOT: cross-replica-sum
module @sums {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "mhlo.cross-replica-sum"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

/// A receive from the host becomes a call, whose time is not known; and a permute that moves nothing.

// CHECK-LABEL: module @no_pairs
// CHECK: stablehlo.custom_call @
// CHECK-SAME: has_side_effect = true
// CHECK: stablehlo.collective_permute
// CHECK-SAME: hespas.comm = {}
module @no_pairs {
  func.func @main(%t: !stablehlo.token) -> (tensor<f32>, !stablehlo.token) {
    %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 0, type = 3>, is_host_transfer = true, source_target_pairs = dense<> : tensor<0xi64>}> : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
    %1 = "stablehlo.collective_permute"(%0#0) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<f32>) -> tensor<f32>
    return %1, %0#1 : tensor<f32>, !stablehlo.token
  }
}

// -----

/// Attributes that the bindings cannot represent: complex elements on an op of another dialect.

// CHECK-LABEL: module @complex
// CHECK: func.func @main(%{{.*}}: tensor<4xf32>) ->
// CHECK: arith.constant dense<(1.000000e+00,0.000000e+00)>
module @complex {
  func.func @main(%x: tensor<4xf32> {mhlo.note = dense<(1.0,2.0)> : tensor<2xcomplex<f32>>, mhlo.sharding = "{devices=[1]<=[1]}"}) -> tensor<complex<f32>> {
    %0 = arith.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
    return %0 : tensor<complex<f32>>
  }
}
