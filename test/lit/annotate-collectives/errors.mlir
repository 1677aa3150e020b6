// RUN: hespas-opt %s --annotate-collectives --split-input-file --verify-diagnostics

/// Groups that name more replicas, partitions or devices than there are.

module @a attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the collective names cross_replica id 3, but the module is for 2 replicas x 1 partitions; correct mhlo.num_replicas and mhlo.num_partitions}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<16xf32>
    return
  }
}

// -----

module @b attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the collective names cross_replica id 1, but the module is for 1 replicas x 2 partitions; correct mhlo.num_replicas and mhlo.num_partitions, or give the op a channel id, so that its ids number partitions}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

module @c attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the collective names cross_partition id 2, but}}
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 2]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

module @d attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the collective names flattened_ids id 3, but}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<16xf32>
    return
  }
}

// -----

module @e attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the collective names cross_replica_and_partition id 1, but}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<16xf32>
    return
  }
}

// -----

/// Counts that are none.

// expected-error @+1 {{mhlo.num_partitions is "4", no integer; correct it, or remove it}}
module @f attributes {mhlo.num_partitions = "4"} {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

// expected-error @+1 {{mhlo.num_replicas is 0, less than 1}}
module @f attributes {mhlo.num_replicas = 0 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

/// Lists of devices in another form.

module @g {
  func.func @main(%x: tensor<4xf32>, %n: tensor<2xi64>) {
    // expected-error @+1 {{the list of its devices is not a dense attribute of integers}}
    %0 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {replica_groups = [[0, 1]]}} : (tensor<4xf32>, tensor<4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4xf32>
    return
  }
}

// -----

module @h {
  func.func @main(%x: tensor<4xf32>, %n: tensor<2xi64>) {
    // expected-error @+1 {{the list of its devices has 1 dimensions, not 2}}
    %0 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {replica_groups = dense<[0, 1]> : tensor<2xi64>}} : (tensor<4xf32>, tensor<4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4xf32>
    return
  }
}

// -----

module @i {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{a source-target pair does not name two devices}}
    %0 = stablehlo.custom_call @hespas_collective_permute(%x) {source_target_pairs = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// An axis or a mesh that is not there, and groups that do not fit the op: MLIR verifies only lists.

module @j {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{replica groups name the axis 'z', which @mesh does not have}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "z">]>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

module @l {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the groups of its mesh axes do not fit: group size of replica_groups must be 1}}
    %0 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>, split_count = 1 : i64, split_dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// A send that names no devices.

module @m {
  func.func @main(%x: tensor<4xf32>, %t: !stablehlo.token) {
    // expected-error @+1 {{send on channel 7 does not name source and target devices; add source_target_pairs to the op, or use collective_permute}}
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    return
  }
}

// -----

/// The end of an async pair whose start is elsewhere.

module @n {
  func.func @main(%x: tensor<4xf32>, %f: !stablehlo.future<tensor<4xf32>>) {
    // expected-error @+1 {{no async_start in its block starts what it waits for; compile without collective pipelining}}
    %0 = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
    return
  }
}

// -----

/// A size that is not known.

module @o {
  func.func @main(%x: tensor<4xf32>, %y: tensor<?xf32>) {
    // expected-error @+1 {{the size of tensor<?xf32> is not known; set the sizes of symbolic dimensions with --prepare=dims=...}}
    %0 = "stablehlo.collective_permute"(%y) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<?xf32>) -> tensor<?xf32>
    return
  }
}

// -----

/// What another tool says of a call names a communicator of the module.

module @stated attributes {hespas.communicators = {"7" = array<i64: 0, 1>}, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{hespas.comm: communicator 5 is not in hespas.communicators; name its devices: hespas.communicators = {"5" = array<i64: ...>} on the module}}
    %0 = stablehlo.custom_call @acme(%x) {hespas.comm = {groups = array<i64: 5>, kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// What an all_reduce says of itself does not follow from the custom call to which another pass has copied the rest.

module @copied attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{hespas.comm lacks the field 'kind', which does not follow from this op; state kind, operand_bytes, result_bytes, or remove hespas.comm}}
    %0 = stablehlo.custom_call @acme(%x) {hespas.comm = {groups = array<i64: 1>}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// Without a channel the ids of every collective number replicas. If others number partitions, and the module does not
/// state a grid of both, that is an oversight: XLA runs such a collective on replicas only.

module @permute_without_channel {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{the collective names cross_replica id 1, and others name 2 partitions, but the module does not state that it is for replicas of so many; give the op a channel id, so that its ids number partitions, or state mhlo.num_replicas and mhlo.num_partitions}}
    %1 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

module @gather_without_channel attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{the collective names cross_replica id 1, and others name 2 partitions, but}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

module @all_to_all_without_channel {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{the collective names cross_replica id 1, and others name 3 partitions, but}}
    %1 = "stablehlo.all_to_all"(%0) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

module @sum_without_global_ids {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{the collective names cross_replica_and_partition id 1, and others name 2 partitions, but the module does not state that it is for replicas of so many; set use_global_device_ids, so that its ids number devices, or state mhlo.num_replicas and mhlo.num_partitions}}
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// A call names a communicator that the module does not have.

module @unknown_communicator attributes {hespas.communicators = {"7" = array<i64: 0, 1>}, mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    // expected-error @+1 {{hespas.comm: communicator 8 is not in hespas.communicators; name its devices}}
    %0 = stablehlo.custom_call @acme(%x) {hespas.comm = {groups = array<i64: 8>, kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}
