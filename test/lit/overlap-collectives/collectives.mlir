// RUN: hespas-opt %s --overlap-collectives=target=H100_80GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=target=H100_80GB --overlap-collectives=target=H100_80GB --split-input-file | filecheck %s

/// A gather of 32 MiB takes about 100 us of an H100, a product of two matrices with 4,096 rows and
/// columns more: it starts before the product, and is awaited before what needs it.

// CHECK-LABEL: module @weights
module @weights attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[A:.*]] = stablehlo.tanh
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%arg1) {{.*}} {hespas.comm = {groups = array<i64: 1>, is_async = true}}
  // CHECK-NEXT: %[[B:.*]] = stablehlo.dot_general %[[A]]
  // CHECK-NEXT: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  // CHECK-NEXT: stablehlo.add %[[B]], %[[W]]
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %a = stablehlo.tanh %x : tensor<4096x4096xbf16>
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.add %b, %g : tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}

// -----

/// The gather takes 40 us, and an elementwise kernel that reads and writes 8 MiB each 6 us: it does
/// not suffice, and the product goes before it, too.
/// What makes the operand of the collective stays before, and free ops are where they are needed.

// CHECK-LABEL: module @several
module @several attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg1
  // CHECK-NEXT: %[[S:.*]] = stablehlo.slice %[[N]]
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%[[S]]) {{.*}}is_async = true
  // CHECK-NEXT: %[[B:.*]] = stablehlo.dot_general %arg0
  // CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[B]]
  // CHECK-NEXT: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[W]]
  // CHECK-NEXT: stablehlo.add %[[C]], %[[R]]
  func.func @main(%x: tensor<2048x4096xbf16>, %w: tensor<1024x4096xbf16>, %v: tensor<4096x2048xbf16>) -> tensor<2048x2048xbf16> {
    %b = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<2048x4096xbf16>, tensor<4096x2048xbf16>) -> tensor<2048x2048xbf16>
    %c = stablehlo.cosine %b : tensor<2048x2048xbf16>
    %n = stablehlo.negate %w : tensor<1024x4096xbf16>
    %s = stablehlo.slice %n [0:256, 0:4096] : (tensor<1024x4096xbf16>) -> tensor<256x4096xbf16>
    %g = "stablehlo.all_gather"(%s) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<256x4096xbf16>) -> tensor<1024x4096xbf16>
    %h = stablehlo.reshape %g : (tensor<1024x4096xbf16>) -> tensor<2048x2048xbf16>
    %r = stablehlo.add %c, %h : tensor<2048x2048xbf16>
    return %r : tensor<2048x2048xbf16>
  }
}

// -----

/// One is in flight at a time: the first starts before the second product, the second after it.

// CHECK-LABEL: module @one_at_a_time
module @one_at_a_time attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[G:.*]] = "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
  // CHECK-NEXT: %[[A:.*]] = stablehlo.dot_general %arg0, %arg3
  // CHECK-NEXT: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  // CHECK-NEXT: %[[H:.*]] = "stablehlo.all_gather"(%arg2) {{.*}}is_async = true
  // CHECK-NEXT: %[[B:.*]] = stablehlo.dot_general %[[A]], %[[W]]
  // CHECK-NEXT: %[[V:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[H]]
  // CHECK-NEXT: stablehlo.dot_general %[[B]], %[[V]]
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>, %u: tensor<1024x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %h = "stablehlo.all_gather"(%u) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %b = stablehlo.dot_general %a, %g, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %c = stablehlo.dot_general %b, %h, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    return %c : tensor<4096x4096xbf16>
  }
}

// -----

/// A collective that everything waits for stays synchronous.

// CHECK-LABEL: module @serial
module @serial attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: "stablehlo.all_reduce"
  // CHECK: {hespas.comm = {groups = array<i64: 1>}}
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NOT: hespas.wait
  func.func @main(%x: tensor<4096x1024xbf16>, %v: tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16> {
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
      %s = stablehlo.add %p, %q : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %t = stablehlo.tanh %r : tensor<4096x4096xbf16>
    return %t : tensor<4096x4096xbf16>
  }
}

// -----

/// An all-reduce goes through the links twice: 16 MiB take 100 us, and a gather of as many 60 us. A
/// product of 2^35 operations takes 33 us: four of them are enough for the first, two for the other.

// CHECK-LABEL: module @kinds
module @kinds attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"(%arg1)
  // CHECK: is_async = true
  // CHECK-NEXT: %[[A:.*]] = stablehlo.dot_general %arg0, %arg2
  // CHECK-NEXT: %[[B:.*]] = stablehlo.dot_general %[[A]], %arg2
  // CHECK-NEXT: %[[C:.*]] = stablehlo.dot_general %[[B]], %arg2
  // CHECK-NEXT: %[[D:.*]] = stablehlo.dot_general %[[C]], %arg2
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: "stablehlo.all_gather"(%arg3) {{.*}}is_async = true
  // CHECK-NEXT: %[[E:.*]] = stablehlo.dot_general %[[D]], %arg2
  // CHECK-NEXT: stablehlo.dot_general %[[E]], %arg2
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
  func.func @main(%x: tensor<4096x2048xbf16>, %w: tensor<4096x2048xbf16>, %v: tensor<2048x2048xbf16>, %u: tensor<1024x2048xbf16>) -> tensor<4096x2048xbf16> {
    %r = "stablehlo.all_reduce"(%w) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
      %s = stablehlo.add %p, %q : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<4096x2048xbf16>) -> tensor<4096x2048xbf16>
    %g = "stablehlo.all_gather"(%u) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x2048xbf16>) -> tensor<4096x2048xbf16>
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xbf16>
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xbf16>
    %c = stablehlo.dot_general %b, %v, contracting_dims = [1] x [0] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xbf16>
    %d = stablehlo.dot_general %c, %v, contracting_dims = [1] x [0] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xbf16>
    %m = stablehlo.add %d, %r : tensor<4096x2048xbf16>
    %e = stablehlo.dot_general %d, %v, contracting_dims = [1] x [0] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xbf16>
    %f = stablehlo.dot_general %e, %v, contracting_dims = [1] x [0] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xbf16>
    %o = stablehlo.add %f, %g : tensor<4096x2048xbf16>
    %z = stablehlo.add %o, %m : tensor<4096x2048xbf16>
    return %z : tensor<4096x2048xbf16>
  }
}

// -----

/// What reads a buffer stays before what writes to it, though nothing else orders them.

// CHECK-LABEL: module @buffers
module @buffers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.tanh %arg0
  // CHECK: stablehlo.dynamic_update_slice %arg0
  func.func @main(%x: tensor<4096x4096xbf16> {tf.aliasing_output = 0 : i32}, %y: tensor<1x4096xbf16>, %w: tensor<1024x4096xbf16>, %i: tensor<i32>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) {
    %t = stablehlo.tanh %x : tensor<4096x4096xbf16>
    %d = stablehlo.dynamic_update_slice %x, %y, %i, %i : (tensor<4096x4096xbf16>, tensor<1x4096xbf16>, tensor<i32>, tensor<i32>) -> tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %a = stablehlo.add %g, %t : tensor<4096x4096xbf16>
    return %d, %a, %g : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
  }
}

// -----

/// Nothing is in flight during a loop that communicates; a loop that does not hides a collective.

// CHECK-LABEL: module @loops
module @loops attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
  // CHECK: stablehlo.while
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.optimization_barrier {hespas.wait = true}
  // CHECK: stablehlo.while
  // CHECK: stablehlo.all_reduce
  // CHECK: {hespas.comm = {groups = array<i64: 1>, is_async = true}}
  // CHECK: stablehlo.return %{{.*}}, %
  // CHECK: "stablehlo.all_gather"(%arg2) {{.*}} {hespas.comm = {groups = array<i64: 1>}}
  // CHECK-NOT: hespas.wait
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>, %u: tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %h = "stablehlo.all_gather"(%u) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %1:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, tensor<4096x4096xbf16>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %t = stablehlo.tanh %a : tensor<4096x4096xbf16>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<4096x4096xbf16>
    }
    %2 = stablehlo.add %1#1, %g : tensor<4096x4096xbf16>
    %3:2 = stablehlo.while(%i = %z, %a = %2) : tensor<i32>, tensor<4096x4096xbf16>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %t = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
      %s = stablehlo.add %p, %q : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<4096x4096xbf16>
    }
    %4 = stablehlo.add %3#1, %h : tensor<4096x4096xbf16>
    return %4 : tensor<4096x4096xbf16>
  }
}

// -----

/// Transfers stay where the program has them.

// CHECK-LABEL: module @transfers
module @transfers attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.send
  // CHECK-NEXT: stablehlo.recv
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NOT: hespas.wait
  func.func @main(%x: tensor<4096x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %t = stablehlo.create_token : !stablehlo.token
    %s = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4096x4096xbf16>, !stablehlo.token) -> !stablehlo.token
    %r:2 = "stablehlo.recv"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<4096x4096xbf16>, !stablehlo.token)
    %b = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %d = stablehlo.dot_general %b, %r#0, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    return %d : tensor<4096x4096xbf16>
  }
}

// -----

/// A kernel of a time that is not known hides no more than its launch, so that the gather starts before the one before. What
/// nothing reads stays.

// CHECK-LABEL: module @unknown
module @unknown attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[G:.*]] = "stablehlo.all_gather"
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.custom_call @mystery
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16> {
    %a = stablehlo.tanh %x : tensor<4096x4096xbf16>
    %b = stablehlo.custom_call @mystery(%a) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %unread = stablehlo.negate %a : tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.add %b, %g : tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}
