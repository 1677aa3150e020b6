// RUN: hespas-opt %s --xla-optimize=target=cpu | filecheck %s

/// XLA divides by shardings that stand only on ops, here too.

// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32>
module @op {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
