// RUN: hespas-opt %s --join-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --join-reductions --join-reductions --split-input-file | filecheck %s

/// Three sums over the devices, which are added, are one.

// CHECK-LABEL: module @three
module @three attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[A:.*]] = stablehlo.add %arg0, %arg1
  // CHECK-NEXT: %[[B:.*]] = stablehlo.add %[[A]], %arg2
  // CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%[[B]])
  // CHECK: {hespas.comm = {groups = array<i64: 1>}}
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %c = stablehlo.add %a, %b : tensor<8xf32>
    %d = "stablehlo.all_reduce"(%z) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %r = stablehlo.add %c, %d : tensor<8xf32>
    return %r : tensor<8xf32>
  }
}

// -----

/// A sum that something else reads is needed by itself.

// CHECK-LABEL: module @several_readers
module @several_readers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.add %{{[0-9]+}}, %
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %r = stablehlo.add %a, %b : tensor<8xf32>
    return %r, %a : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// A maximum over the devices is no sum.

// CHECK-LABEL: module @maxima
module @maxima attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.add %{{[0-9]+}}, %
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %r = stablehlo.add %a, %b : tensor<8xf32>
    return %r : tensor<8xf32>
  }
}

// -----

/// The sums are of the same devices.

// CHECK-LABEL: module @groups
module @groups attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.add %{{[0-9]+}}, %
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %r = stablehlo.add %a, %b : tensor<8xf32>
    return %r : tensor<8xf32>
  }
}

// -----

/// A sum may be added to something else, and to itself.

// CHECK-LABEL: module @others
module @others attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.add %{{[0-9]+}}, %
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %c = stablehlo.add %a, %z : tensor<8xf32>
    %d = stablehlo.add %b, %b : tensor<8xf32>
    %r = stablehlo.multiply %c, %d : tensor<8xf32>
    return %r : tensor<8xf32>
  }
}

// -----

/// A sum before a loop is not repeated in it.

// CHECK-LABEL: module @outside
module @outside attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.while
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.add %{{[0-9]+}}, %
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %1:2 = stablehlo.while(%i = %z, %v = %y) : tensor<i32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %b = "stablehlo.all_reduce"(%v) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8xf32>) -> tensor<8xf32>
      %w = stablehlo.add %a, %b : tensor<8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %w : tensor<i32>, tensor<8xf32>
    }
    return %1#1 : tensor<8xf32>
  }
}

// -----

/// Gradients of a weight that two products read are transposed: XLA adds, reduces and then transposes.

// CHECK-LABEL: module @transposed
// CHECK: %[[A:.*]] = stablehlo.add %arg0, %arg1
// CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%[[A]])
// CHECK: %[[T:.*]] = stablehlo.transpose %[[R]], dims = [2, 0, 1]
// CHECK-NEXT: return %[[T]]
module @transposed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x4x4xf32>, %y: tensor<4x4x4xf32>) -> tensor<4x4x4xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %s0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %s1 = stablehlo.transpose %b, dims = [2, 0, 1] : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %r = stablehlo.add %s0, %s1 : tensor<4x4x4xf32>
    return %r : tensor<4x4x4xf32>
  }
}

// -----

/// Sums in another order of dimensions are two, and so are those of which one is transposed.

// CHECK-LABEL: module @other_order
// CHECK-COUNT-2: "stablehlo.all_reduce"(%arg
// CHECK: stablehlo.add
// CHECK-NEXT: return
module @other_order attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x4x4xf32>, %y: tensor<4x4x4xf32>) -> tensor<4x4x4xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %s0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %s1 = stablehlo.transpose %b, dims = [1, 2, 0] : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %r = stablehlo.add %s0, %s1 : tensor<4x4x4xf32>
    return %r : tensor<4x4x4xf32>
  }
}

// -----

// CHECK-LABEL: module @one_order
// CHECK-COUNT-2: "stablehlo.all_reduce"(%arg
// CHECK: stablehlo.add
// CHECK-NEXT: return
module @one_order attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x4x4xf32>, %y: tensor<4x4x4xf32>) -> tensor<4x4x4xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %s0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
    %r = stablehlo.add %s0, %b : tensor<4x4x4xf32>
    return %r : tensor<4x4x4xf32>
  }
}

// -----

/// Of slices at one place, as a device needs of divided weights, the sum is sliced; slices at other places stay.

// CHECK-LABEL: module @slices
// CHECK: %[[V:.*]] = "stablehlo.all_reduce"(%arg2)
// CHECK: %[[W:.*]] = stablehlo.dynamic_slice %[[V]], %arg4, %arg3
// CHECK-NEXT: %[[X:.*]] = stablehlo.transpose %[[W]], dims = [1, 0]
// CHECK-NEXT: %[[A:.*]] = stablehlo.add %arg0, %arg1
// CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%[[A]])
// CHECK: %[[S:.*]] = stablehlo.dynamic_slice %[[R]], %arg3, %arg4, sizes = [8, 2]
// CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[S]], dims = [1, 0]
// CHECK-NEXT: stablehlo.add %[[T]], %[[X]]
module @slices attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %z: tensor<8x8xf32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<2x8xf32> {
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %a1 = stablehlo.dynamic_slice %a, %i, %j, sizes = [8, 2] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
    %a2 = stablehlo.transpose %a1, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %b = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %b1 = stablehlo.dynamic_slice %b, %i, %j, sizes = [8, 2] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
    %b2 = stablehlo.transpose %b1, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %c = "stablehlo.all_reduce"(%z) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %c1 = stablehlo.dynamic_slice %c, %j, %i, sizes = [8, 2] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
    %c2 = stablehlo.transpose %c1, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %ab = stablehlo.add %a2, %b2 : tensor<2x8xf32>
    %abc = stablehlo.add %ab, %c2 : tensor<2x8xf32>
    return %abc : tensor<2x8xf32>
  }
}
