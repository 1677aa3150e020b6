// RUN: hespas-opt %s --annotate-collectives=devices=4 | filecheck %s
// RUN: not hespas-opt %s --annotate-collectives=devices=8 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not hespas-opt %s --annotate-collectives=devices=-1 2>&1 | filecheck %s --check-prefix=SIGN
// RUN: not hespas-opt %s --annotate-collectives=replicas=-1 2>&1 | filecheck %s --check-prefix=REPLICAS

/// The number of devices can be demanded; it does not change that of the module.

// CHECK: hespas.target = {devices = 4 : i64, partitions = 2 : i64, replicas = 2 : i64}
// OTHER: error: {{.*}}the module is for 2 x 2 devices (replicas x partitions), not 8; omit the option 'devices', or export the module for 8 devices
// SIGN: error: annotate-collectives: option 'devices' is -1, less than 0
// REPLICAS: error: annotate-collectives: option 'replicas' is -1, less than 0
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
