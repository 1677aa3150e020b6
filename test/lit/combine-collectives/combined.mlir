// RUN: hespas-opt %s --combine-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --combine-collectives --combine-collectives --split-input-file | filecheck %s

/// All-gathers are one op of several operands; what the second one needs is computed before it.

// CHECK-LABEL: module @gathers
module @gathers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg1
  // CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[N]]
  // CHECK-NEXT: %[[G:.*]]:2 = "stablehlo.all_gather"(%arg0, %[[C]]) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{.*}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {hespas.comm = {groups = array<i64: 1>}} : (tensor<4xf32>, tensor<2x4xf32>) -> (tensor<16xf32>, tensor<8x4xf32>)
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[G]]#0
  // CHECK-NEXT: return %[[T]], %[[G]]#1
  func.func @main(%x: tensor<4xf32>, %y: tensor<2x4xf32>) -> (tensor<16xf32>, tensor<8x4xf32>) {
    %n = stablehlo.negate %y : tensor<2x4xf32>
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<16xf32>
    %t = stablehlo.tanh %0 : tensor<16xf32>
    %c = stablehlo.cosine %n : tensor<2x4xf32>
    %1 = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<8x4xf32>
    return %t, %1 : tensor<16xf32>, tensor<8x4xf32>
  }
}

// -----

/// All-reduces go through one buffer, whose slices are the results.

// CHECK-LABEL: module @reductions
module @reductions attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[Y:.*]] = stablehlo.reshape %arg1 : (tensor<4x4xf32>) -> tensor<16xf32>
  // CHECK-NEXT: %[[Z:.*]] = stablehlo.reshape %arg2 : (tensor<f32>) -> tensor<1xf32>
  // CHECK-NEXT: %[[C:.*]] = stablehlo.concatenate %arg0, %[[Y]], %[[Z]], dim = 0 {{.*}} -> tensor<25xf32>
  // CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%[[C]])
  // CHECK: stablehlo.maximum
  // CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<25xf32>) -> tensor<25xf32>
  // CHECK-NEXT: %[[A:.*]] = stablehlo.slice %[[R]] [0:8]
  // CHECK-NEXT: %[[P:.*]] = stablehlo.slice %[[R]] [8:24]
  // CHECK-NEXT: %[[B:.*]] = stablehlo.reshape %[[P]] : (tensor<16xf32>) -> tensor<4x4xf32>
  // CHECK-NEXT: %[[Q:.*]] = stablehlo.slice %[[R]] [24:25]
  // CHECK-NEXT: %[[S:.*]] = stablehlo.reshape %[[Q]] : (tensor<1xf32>) -> tensor<f32>
  // CHECK-NEXT: return %[[A]], %[[B]], %[[S]]
  func.func @main(%x: tensor<8xf32>, %y: tensor<4x4xf32>, %z: tensor<f32>) -> (tensor<8xf32>, tensor<4x4xf32>, tensor<f32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.all_reduce"(%z) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
    return %0, %1, %2 : tensor<8xf32>, tensor<4x4xf32>, tensor<f32>
  }
}

// -----

/// Each op that does not depend on the order of its operands can be the reduction.

// CHECK-LABEL: module @op_and
module @op_and attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"({{.*}})
  // CHECK: stablehlo.and
  // CHECK-NOT: stablehlo.all_reduce
  func.func @main(%x: tensor<8xi32>, %y: tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.and %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.and %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    return %0, %1 : tensor<8xi32>, tensor<8xi32>
  }
}

// -----

// CHECK-LABEL: module @op_or
module @op_or attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"({{.*}})
  // CHECK: stablehlo.or
  // CHECK-NOT: stablehlo.all_reduce
  func.func @main(%x: tensor<8xi32>, %y: tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.or %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.or %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    return %0, %1 : tensor<8xi32>, tensor<8xi32>
  }
}

// -----

// CHECK-LABEL: module @op_minimum
module @op_minimum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"({{.*}})
  // CHECK: stablehlo.minimum
  // CHECK-NOT: stablehlo.all_reduce
  func.func @main(%x: tensor<8xi32>, %y: tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.minimum %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.minimum %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    return %0, %1 : tensor<8xi32>, tensor<8xi32>
  }
}

// -----

// CHECK-LABEL: module @op_multiply
module @op_multiply attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"({{.*}})
  // CHECK: stablehlo.multiply
  // CHECK-NOT: stablehlo.all_reduce
  func.func @main(%x: tensor<8xi32>, %y: tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.multiply %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.multiply %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<8xi32>) -> tensor<8xi32>
    return %0, %1 : tensor<8xi32>, tensor<8xi32>
  }
}

// -----

/// One that needs another begins a new group.

// CHECK-LABEL: module @needed
module @needed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"(%arg0)
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: stablehlo.concatenate %[[T]], %arg1
  // CHECK: "stablehlo.all_reduce"
  // CHECK-NOT: stablehlo.all_reduce
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %t = stablehlo.tanh %0 : tensor<8xf32>
    %1 = "stablehlo.all_reduce"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %1, %2 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// It may need it by way of a branch, which captures it, or of a call whose side effects keep their order.

// CHECK-LABEL: module @captured
module @captured attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-COUNT-2: "stablehlo.all_reduce"
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %c: tensor<i1>) -> (tensor<8xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %t = "stablehlo.if"(%c) ({
      %n = stablehlo.negate %0 : tensor<8xf32>
      stablehlo.return %n : tensor<8xf32>
    }, {
      stablehlo.return %y : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    %1 = "stablehlo.all_reduce"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @effects
module @effects attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.all_gather"(%arg0)
  // CHECK: stablehlo.custom_call @first
  // CHECK: stablehlo.custom_call @second
  // CHECK: stablehlo.all_gather
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<16xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<16xf32>
    %1 = stablehlo.custom_call @first(%0) {has_side_effect = true} : (tensor<16xf32>) -> tensor<4xf32>
    %2 = stablehlo.custom_call @second(%y) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "stablehlo.all_gather"(%2) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<16xf32>
    return %1, %3 : tensor<4xf32>, tensor<16xf32>
  }
}

// -----

/// So does one that needs another member of the group than the first.

// CHECK-LABEL: module @needs_second
module @needs_second attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[C:.*]] = stablehlo.concatenate %arg0, %arg1
  // CHECK-NEXT: "stablehlo.all_reduce"(%[[C]])
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: "stablehlo.all_reduce"(%[[T]])
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %t = stablehlo.tanh %1 : tensor<8xf32>
    %2 = "stablehlo.all_reduce"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %2 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// All-gathers and all-reduces could both be combined, but either makes the other a circle: all-gathers come first,
/// as XLA combines them first.

// CHECK-LABEL: module @gathers_first
module @gathers_first attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[A:.*]] = "stablehlo.all_reduce"(%arg0)
  // CHECK: %[[B:.*]]:2 = "stablehlo.all_gather"(%[[A]], %arg1)
  // CHECK: %[[C:.*]] = stablehlo.slice %[[B]]#1 [0:16]
  // CHECK: %[[D:.*]] = "stablehlo.all_reduce"(%[[C]])
  // CHECK: return %[[D]], %[[B]]#0
  func.func @main(%x: tensor<16xf32>, %y: tensor<16xf32>) -> (tensor<16xf32>, tensor<64xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<16xf32>) -> tensor<64xf32>
    %2 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<16xf32>) -> tensor<64xf32>
    %c = stablehlo.slice %2 [0:16] : (tensor<64xf32>) -> tensor<16xf32>
    %3 = "stablehlo.all_reduce"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    return %3, %1 : tensor<16xf32>, tensor<64xf32>
  }
}

// -----

/// All-gathers of several types are combined; all-reduces are of one buffer, and so of one type.

// CHECK-LABEL: module @types
module @types attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg0, %arg1)
  // CHECK-SAME: (tensor<4xf32>, tensor<4xbf16>) -> (tensor<16xf32>, tensor<16xbf16>)
  // CHECK: "stablehlo.all_reduce"(%arg0)
  // CHECK: "stablehlo.all_reduce"(%arg1)
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> (tensor<16xf32>, tensor<16xbf16>, tensor<4xf32>, tensor<4xbf16>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<16xf32>
    %1 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4xbf16>) -> tensor<16xbf16>
    %2 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
      %s = stablehlo.add %p, %q : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<4xbf16>) -> tensor<4xbf16>
    return %0, %1, %2, %3 : tensor<16xf32>, tensor<16xbf16>, tensor<4xf32>, tensor<4xbf16>
  }
}

// -----

/// Reduce-scatters of one type, along one dimension and with one reduction are a call with a result for each operand, as
/// those that XLA has combined; StableHLO's have one operand.

// CHECK-LABEL: module @scatters
module @scatters attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[C:.*]] = stablehlo.cosine %arg1
  // CHECK-NEXT: %[[R:.*]]:2 = stablehlo.custom_call @hespas_reduce_scatter(%arg0, %[[C]]) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, hespas.comm = {groups = array<i64: 1>}, replica_groups = {{.*}}, use_global_device_ids} : (tensor<4x4xf32>, tensor<8xf32>) -> (tensor<1x4xf32>, tensor<2xf32>)
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[R]]#0
  // CHECK-NEXT: return %[[T]], %[[R]]#1
  func.func @main(%x: tensor<4x4xf32>, %y: tensor<8xf32>) -> (tensor<1x4xf32>, tensor<2xf32>) {
    %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %t = stablehlo.tanh %0 : tensor<1x4xf32>
    %c = stablehlo.cosine %y : tensor<8xf32>
    %1 = "stablehlo.reduce_scatter"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<2xf32>
    return %t, %1 : tensor<1x4xf32>, tensor<2xf32>
  }
}
