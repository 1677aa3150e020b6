// RUN: hespas-opt %s --partition | filecheck %s

/// MLIR's bindings have no class for complex elements; those of a resource are written all the same.

// CHECK: func.func @main(%arg0: tensor<1xcomplex<f32>>) -> tensor<1xcomplex<f32>>
// CHECK: stablehlo.constant dense<[(1.000000e+00,2.000000e+00), (3.000000e+00,4.000000e+00)]>
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<2xcomplex<f32>> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<2xcomplex<f32>> {
    %w = stablehlo.constant dense_resource<weight> : tensor<2xcomplex<f32>>
    %0 = stablehlo.add %x, %w : tensor<2xcomplex<f32>>
    return %0 : tensor<2xcomplex<f32>>
  }
}

{-#
  dialect_resources: {
    builtin: {
      weight: "0x040000000000803F000000400000404000008040"
    }
  }
#-}
