// RUN: hespas-opt %s --annotate-collectives --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives --split-input-file 2>&1 | filecheck %s

// CHECK-NOT: {{warning|changed after}}

/// A permute has the pairs of devices between which data moves; one without pairs moves nothing.

// CHECK-LABEL: module @permutes
// CHECK: hespas.comm = {pairs = array<i64: 2, 4, 3, 5>}
// CHECK: hespas.comm = {pairs = array<i64: 0, 1, 2, 3, 4, 5>}
// CHECK: hespas.comm = {}
module @permutes attributes {mhlo.num_replicas = 3 : i32, mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 0], [1, 2]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// XLA combines permutes and reduce-scatters into calls.

// CHECK-LABEL: module @combined
// CHECK: hespas.comm = {pairs = array<i64: 0, 1>}
// CHECK: hespas.comm = {groups = array<i64: 1>}
module @combined attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = stablehlo.custom_call @hespas_collective_permute(%x) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64}, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @hespas_reduce_scatter(%x) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids} : (tensor<4xf32>) -> tensor<2xf32>
    return
  }
}

// -----

/// The other kinds have communicators. Padding is no device, a group of one communicates with nobody, and no groups are one of all.

// CHECK-LABEL: module @groups
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1, 2>, "2" = array<i64: 0, 1, 2, 3>, "3" = array<i64: 0, 3>, "4" = array<i64: 1, 2>}
// CHECK: hespas.comm = {groups = array<i64: 1>}
// CHECK: hespas.comm = {groups = array<i64: 2>}
// CHECK: hespas.comm = {groups = array<i64: 3, 4>}
// CHECK: hespas.comm = {}
module @groups attributes {mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<> : tensor<0x0xi64>}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %s = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 3], [1, 2]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// The source of a broadcast is the first of its group: it is named if it is not the lowest.

// CHECK-LABEL: module @broadcast
// CHECK: hespas.comm = {groups = array<i64: 1, 2>, pairs = array<i64: 1, 0>}
module @broadcast attributes {mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[1, 0], [2, 3]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// Only the send counts what it sends.

// CHECK-LABEL: module @transfers
// CHECK: "stablehlo.send"
// CHECK-SAME: hespas.comm = {pairs = array<i64: 0, 1>}
// CHECK: "stablehlo.recv"
// CHECK-SAME: hespas.comm = {note = "the matching send accounts for the time"}
module @transfers attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>, %t: !stablehlo.token) {
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    return
  }
}

// -----

/// Copies to and from the host go over their own link; a frontend marks what goes over another network.

// CHECK-LABEL: module @networks
// CHECK: @hespas_offload{{.*}} {hespas.comm = {network = "host"}}
// CHECK: @hespas_fetch{{.*}} {hespas.comm = {network = "host"}}
// CHECK: hespas.comm = {groups = array<i64: 1>, network = "slices"}
module @networks attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = stablehlo.custom_call @hespas_offload(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @hespas_fetch(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {mhlo.frontend_attributes = {hespas_network = "slices"}} : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

/// What another pass has found asynchronous stays so.

// CHECK-LABEL: module @async
// CHECK: hespas.comm = {groups = array<i64: 1>, is_async = true}
// CHECK: hespas.comm = {is_async = true}
// CHECK: hespas.comm = {is_async = true, network = "host"}
module @async attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.custom_call @hespas_offload(%x) {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// A cost or region on a collective is that of the op that it replaces.

// CHECK-LABEL: module @replaced
// CHECK: <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[\[}}0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {groups = array<i64: 1>}}
module @replaced attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

/// No groups of devices are one of all devices.

// CHECK-LABEL: module @all
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1, 2, 3>}
// CHECK: hespas.comm = {groups = array<i64: 1>}
module @all attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = stablehlo.custom_call @hespas_reduce_scatter(%x) {replica_groups = dense<> : tensor<0xi64>, use_global_device_ids} : (tensor<4xf32>) -> tensor<1xf32>
    return
  }
}

// -----

/// A send and a receive that XLA made of a permute have its pairs as text.

// CHECK-LABEL: module @of_a_permute
// CHECK: "stablehlo.send"
// CHECK-SAME: hespas.comm = {pairs = array<i64: 0, 1, 1, 0>}
module @of_a_permute attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>, %t: !stablehlo.token) -> !stablehlo.token {
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> {mhlo.frontend_attributes = {_xla_send_recv_source_target_pairs = "{{0,1},{1,0}}"}} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    return %0 : !stablehlo.token
  }
}
