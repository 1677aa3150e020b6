// RUN: not hespas-opt %s "--xla-optimize=target=cpu devices=4" 2>&1 | filecheck %s
// RUN: hespas-opt %s "--xla-optimize=target=cpu devices=2" | filecheck %s --check-prefix=SAME

/// The devices of a program that XLA partitions are those of its shardings.

// CHECK: error: 'builtin.module': the module is for 2 devices, not 4
// SAME: func.func @main(%arg0: tensor<4xf32>
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
