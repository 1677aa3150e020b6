// RUN: hespas-opt %s --annotate-collectives=devices=6 -o %t
// RUN: filecheck %s --input-file %t
// RUN: hespas-opt %t --annotate-collectives | filecheck %s
// RUN: not hespas-opt %s --annotate-collectives 2>&1 | filecheck %s --check-prefix=UNSTATED

/// A grid of replicas and partitions has to be stated: by the module, by the option, or by an earlier preparation.

// CHECK: hespas.communicators = {"1" = array<i64: 0, 1, 2>, "2" = array<i64: 3, 4, 5>}
// CHECK-SAME: hespas.target = {devices = 6 : i64, partitions = 3 : i64, replicas = 2 : i64}
// CHECK: pairs = array<i64: 0, 3, 1, 4, 2, 5>
// UNSTATED: error: 'stablehlo.collective_permute': the collective names cross_replica id 1, and others name 3 partitions, but
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "stablehlo.all_to_all"(%0) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 3 : i64, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
