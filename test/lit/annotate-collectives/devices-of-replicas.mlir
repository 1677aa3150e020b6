// RUN: not hespas-opt %s --annotate-collectives=devices=6 --split-input-file 2>&1 | filecheck %s

/// Groups of replicas say how many there are, so that a required number does not add partitions.

// CHECK: error: {{.*}}the module is for 3 x 1 devices (replicas x partitions), not 6; omit the option 'devices', or export the module for 6 devices
func.func @main(%x: tensor<4xf32>) -> tensor<12xf32> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

/// A channel id is no remedy where there are not as many partitions either.

// CHECK: error: {{.*}}cross_replica id 3, but the module is for 3 replicas x 2 partitions; correct mhlo.num_replicas and mhlo.num_partitions{{$}}
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 3 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<16xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
