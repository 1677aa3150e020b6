// RUN: hespas-opt %s --annotate-collectives=local-shapes --split-input-file | filecheck %s

/// A module that states no numbers is for as many devices as its collectives name in all groups,

// CHECK-LABEL: module @groups
// CHECK-SAME: hespas.target = {devices = 6 : i64, partitions = 6 : i64, replicas = 1 : i64}
module @groups {
  func.func @main(%x: tensor<4xf32>) -> tensor<12xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[5, 3, 4], [0, 1, 2]]> : tensor<2x3xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
}

// -----

/// or as the sharding of an argument names,

// CHECK-LABEL: module @sharding
// CHECK-SAME: hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}
module @sharding {
  func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{replicated}"}, %y: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}) -> tensor<8xf32> {
    %0 = stablehlo.add %x, %y : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// or as a mesh of one device implies, whose number says that those before it are there, too.

// CHECK-LABEL: module @one
// CHECK-SAME: hespas.target = {devices = 3 : i64, partitions = 3 : i64, replicas = 1 : i64}
module @one {
  sdy.mesh @mesh = <[], device_ids=[2]>
  func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, []>}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
