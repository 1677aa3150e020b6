// RUN: hespas-opt %s --partition | filecheck %s

/// XLA reads no constants that are resources of the module, as PyTorch's exporters write weights.

// CHECK: func.func @main(%arg0: tensor<2x4xf32>) -> tensor<2x2xf32>
// CHECK: stablehlo.constant dense<{{.*}}[1.000000e+00, 2.000000e+00]
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x4xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
      -> (tensor<8x2xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %w = stablehlo.constant dense_resource<weight> : tensor<4x2xf32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    return %0 : tensor<8x2xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      weight: "0x040000000000803F00000040000040400000804000000040000000400000803F00000040"
    }
  }
#-}
