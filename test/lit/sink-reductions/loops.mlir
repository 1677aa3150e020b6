// RUN: hespas-opt %s --sink-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-reductions --sink-reductions --split-input-file | filecheck %s

/// Gradients are added on each device, and the sum is reduced in their type after the loop.

// CHECK-LABEL: module @zeros
module @zeros attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.while
  // CHECK-NOT: all_reduce
  // CHECK: %[[U:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<8x4xbf16>)
  // CHECK: %[[N:.*]] = stablehlo.convert %{{.*}}#1 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%[[N]])
  // CHECK: {hespas.comm = {groups = array<i64: 1>}}
  // CHECK-NEXT: %[[W:.*]] = stablehlo.convert %[[R]] : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  // CHECK-NEXT: return %[[W]]
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %zeros, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %g = stablehlo.convert %b : (tensor<8x4xf32>) -> tensor<8x4xbf16>
      %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
        %s = stablehlo.add %p, %q : tensor<bf16>
        stablehlo.return %s : tensor<bf16>
      }) : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
      %u = stablehlo.transpose %r, dims = [1, 0] : (tensor<8x4xbf16>) -> tensor<4x8xbf16>
      %c = stablehlo.convert %u : (tensor<4x8xbf16>) -> tensor<4x8xf32>
      %t = stablehlo.add %a, %c : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// What the sum starts with is added once, after the reduction.

// CHECK-LABEL: module @start
module @start attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.while({{.*}}, %{{.*}} = %cst{{.*}}, %{{.*}} = %arg0)
  // CHECK-NOT: all_reduce
  // CHECK: stablehlo.return %{{.*}}, %{{.*}}, %
  // CHECK: %[[R:.*]] = "stablehlo.all_reduce"(%{{.*}}#1)
  // CHECK: %[[S:.*]] = stablehlo.add %arg1, %[[R]]
  // CHECK-NEXT: return %[[S]]
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %y, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %g = stablehlo.tanh %b : tensor<8x4xf32>
      %v = stablehlo.reshape %g : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %r = "stablehlo.all_reduce"(%v) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.add %r, %a : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// The loop needs the sum of each iteration: it returns it as another value, too.

// CHECK-LABEL: module @other_readers
module @other_readers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.while
  // CHECK: all_reduce
  // CHECK: stablehlo.return %{{.*}}, %{{.*}}, %
  // CHECK-NOT: all_reduce
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %zeros, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %u = stablehlo.reshape %r : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %t = stablehlo.add %a, %u : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %r : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// The loop reads what it has added so far.

// CHECK-LABEL: module @reads_total
module @reads_total attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.while
  // CHECK: all_reduce
  // CHECK: stablehlo.return %{{.*}}, %{{.*}}, %
  // CHECK-NOT: all_reduce
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %zeros, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %v = stablehlo.tanh %a : tensor<4x8xf32>
      %r = "stablehlo.all_reduce"(%v) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.add %a, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// It is no sum: of maxima, or of what else is done to it between.

// CHECK-LABEL: module @maxima
module @maxima attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.while
  // CHECK: all_reduce
  // CHECK: stablehlo.return %{{.*}}, %{{.*}}, %
  // CHECK-NOT: all_reduce
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %zeros, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %v = stablehlo.reshape %b : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %r = "stablehlo.all_reduce"(%v) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.maximum %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.add %a, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @divided
module @divided attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.while
  // CHECK: all_reduce
  // CHECK: stablehlo.return %{{.*}}, %{{.*}}, %
  // CHECK-NOT: all_reduce
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %zeros, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %v = stablehlo.reshape %b : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %r = "stablehlo.all_reduce"(%v) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %d = stablehlo.negate %r : tensor<4x8xf32>
      %t = stablehlo.add %a, %d : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<8x4xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}
