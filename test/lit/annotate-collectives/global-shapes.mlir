// RUN: not hespas-opt %s --annotate-collectives 2>&1 | filecheck %s
// RUN: hespas-opt %s --annotate-collectives=local-shapes | filecheck %s --check-prefix=LOCAL
// RUN: hespas-opt %s --annotate-collectives=local-shapes --annotate-collectives | filecheck %s --check-prefix=LOCAL

/// A module with global shapes would be taken as prepared, and estimated without its division. Once it is
/// prepared, its shapes are those of one device, and its shardings are gone: what is found later is of another pass.

// CHECK: global-shapes.mlir:12:1: error: 'builtin.module': its shapes are those of all devices, divided by shardings; run --partition first, or set local-shapes=true if they are those of one
// LOCAL-NOT: mhlo.sharding
// LOCAL: tensor<8xf32>
// LOCAL-NOT: mhlo.sharding
module @global attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
