// RUN: hespas-opt %s --annotate-collectives=local-shapes --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives=local-shapes --annotate-collectives=local-shapes --split-input-file | filecheck %s

/// Without any sign of devices there is one.

// CHECK-LABEL: module @one
// CHECK-SAME: hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}
module @one {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

/// The module states both numbers.

// CHECK-LABEL: module @stated
// CHECK-SAME: hespas.target = {devices = 6 : i64, partitions = 3 : i64, replicas = 2 : i64}
module @stated attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 3 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

/// Groups of replicas.

// CHECK-LABEL: module @replicas
// CHECK-SAME: hespas.target = {devices = 3 : i64, partitions = 1 : i64, replicas = 3 : i64}
module @replicas {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<12xf32>
    return
  }
}

// -----

/// Groups of partitions: a channel and an op whose ids are of partitions then.

// CHECK-LABEL: module @partitions
// CHECK-SAME: hespas.target = {devices = 3 : i64, partitions = 3 : i64, replicas = 1 : i64}
module @partitions {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 2]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// A permute without a channel numbers replicas.

// CHECK-LABEL: module @permute
// CHECK-SAME: hespas.target = {devices = 3 : i64, partitions = 1 : i64, replicas = 3 : i64}
module @permute {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 2]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// Groups of replicas with all their partitions.

// CHECK-LABEL: module @both
// CHECK-SAME: hespas.target = {devices = 4 : i64, partitions = 2 : i64, replicas = 2 : i64}
module @both attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<16xf32>
    return
  }
}

// -----

/// Groups of devices.

// CHECK-LABEL: module @devices
// CHECK-SAME: hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}
module @devices {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<16xf32>
    return
  }
}

// -----

/// Groups of devices of several replicas.

// CHECK-LABEL: module @devices_of_replicas
// CHECK-SAME: hespas.target = {devices = 6 : i64, partitions = 3 : i64, replicas = 2 : i64}
module @devices_of_replicas attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3, 4]]> : tensor<1x5xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<20xf32>
    return
  }
}

// -----

/// A sharding of an argument, although the shapes are those of one device.

// CHECK-LABEL: module @sharding
// CHECK-SAME: hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}
module @sharding {
  func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}) {
    return
  }
}

// -----

/// A sharding that lists its devices.

// CHECK-LABEL: module @listed
// CHECK-SAME: hespas.target = {devices = 3 : i64, partitions = 3 : i64, replicas = 1 : i64}
module @listed {
  func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[3]0,1,2}"}) {
    return
  }
}

// -----

/// A mesh.

// CHECK-LABEL: module @mesh
// CHECK-SAME: hespas.target = {devices = 8 : i64, partitions = 8 : i64, replicas = 1 : i64}
module @mesh {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

/// Without other signs, the grid that was found before.

// CHECK-LABEL: module @known
// CHECK-SAME: hespas.target = {devices = 6 : i64, partitions = 3 : i64, replicas = 2 : i64}
module @known attributes {hespas.communicators = {}, hespas.target = {devices = 6 : i64, partitions = 3 : i64, replicas = 2 : i64}} {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

/// Of meshes that nothing uses, the largest.

// CHECK-LABEL: module @meshes
// CHECK-SAME: hespas.target = {devices = 8 : i64, partitions = 8 : i64, replicas = 1 : i64}
module @meshes {
  sdy.mesh @small = <["x"=2]>
  sdy.mesh @large = <["x"=8]>
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

/// The grid that was found before does not count for collectives that it cannot have: another pass has written them.
/// The module is for the devices of a fresh reading.

// CHECK-LABEL: module @other_collectives
// CHECK-SAME: hespas.target = {devices = 3 : i64, partitions = 1 : i64, replicas = 3 : i64}
module @other_collectives attributes {hespas.communicators = {}, hespas.target = {devices = 3 : i64, partitions = 3 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 2]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// XLA's importer loses the channel of an asynchronous permute, and the counts of the module: its ids are partitions,
/// as those of all others are.

// CHECK: hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}
// CHECK-LABEL: func.func @async_permute
// CHECK: "stablehlo.collective_permute"(%arg0) <{channel_handle
module @lost_channel {
  func.func @async_permute(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
