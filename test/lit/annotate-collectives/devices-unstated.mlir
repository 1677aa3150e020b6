// RUN: hespas-opt %s --annotate-collectives=devices=4 | filecheck %s
// RUN: hespas-opt %s --annotate-collectives=devices=4 --annotate-collectives=devices=4 | filecheck %s
// RUN: hespas-opt %s --annotate-collectives | filecheck %s --check-prefix=FOUND
// RUN: not hespas-opt %s --annotate-collectives=devices=1 2>&1 | filecheck %s --check-prefix=FEWER

/// A module that states no numbers can be for more devices than its collectives name, and not for fewer.

// CHECK: hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}
// FOUND: hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}
// FEWER: error: {{.*}}the module is for 1 x 2 devices (replicas x partitions), not 1; omit the option 'devices', or export the module for 1 devices
func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
