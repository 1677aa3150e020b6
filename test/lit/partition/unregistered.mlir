// RUN: hespas-opt %s --partition --allow-unregistered-dialect 2>&1 | filecheck %s
// RUN: not hespas-opt %s --partition 2>&1 | filecheck %s --check-prefix=REFUSED

/// XLA cannot read attributes in the syntax of an unregistered dialect: they are dropped as others
/// of such dialects are, with a warning. Those of arguments stay.

// CHECK: warning: XLA's partitioner has dropped attributes of other dialects: acme.schedule (ops: 1)
// CHECK: func.func @main(%arg0: tensor<16x64xf32> {acme.place = #acme.bank<1>}) -> tensor<16x64xf32>
// CHECK: stablehlo.tanh %arg0 : tensor<16x64xf32>
// REFUSED: 'none' attribute created with unregistered dialect; {{.*}}--allow-unregistered-dialect

module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64x64xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}", acme.place = #acme.bank<1>})
      -> (tensor<64x64xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %0 = stablehlo.tanh %x {acme.schedule = #acme.order<2>} : tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}
