// RUN: hespas-opt %s --prepare=partition=false | filecheck %s
// RUN: hespas-opt %s --prepare | filecheck %s --check-prefix=DIVIDED

/// Without partitioning, shapes are those of one device, whatever the shardings say.

// CHECK: hespas.target = {devices = 4 : i64, partitions = 4 : i64
// CHECK: @main(%{{.*}}: tensor<16x8xf32>
// DIVIDED: @main(%{{.*}}: tensor<4x8xf32>
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<16x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> (tensor<16x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.tanh %0 : tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}
