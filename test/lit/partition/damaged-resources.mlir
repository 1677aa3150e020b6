// RUN: not hespas-opt %s --partition 2>&1 | filecheck %s

/// A resource that lacks elements names its constant, not its bytes.

// CHECK-NOT: 0x
// CHECK: damaged-resources.mlir:10:10: error: 'stablehlo.constant': the 12 bytes of the resource 'weight' are not those of tensor<4xf32>; write the file again: it may be cut off
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<4xf32> {

    %w = stablehlo.constant dense_resource<weight> : tensor<4xf32>
    %0 = stablehlo.add %x, %w : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      weight: "0x040000000000803F0000004000004040"
    }
  }
#-}
