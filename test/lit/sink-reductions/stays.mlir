// RUN: hespas-opt %s --sink-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-reductions --sink-reductions --split-input-file | filecheck %s

/// A loop that multiplies needs each factor of all devices.

// CHECK-LABEL: module @product
// CHECK: stablehlo.while
// CHECK: all_reduce
// CHECK: stablehlo.return %{{.*}} : tensor<i32>, tensor<4x8xf32>
module @product attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %1:4 = stablehlo.while(%i = %z, %a = %y, %b = %x, %e = %y) : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.multiply %a, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b, %e : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// So does one that reads the sum so far,

// CHECK-LABEL: module @read
// CHECK: stablehlo.while
// CHECK: all_reduce
// CHECK: stablehlo.return %{{.*}} : tensor<i32>, tensor<4x8xf32>
module @read attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %1:4 = stablehlo.while(%i = %z, %a = %y, %b = %x, %e = %y) : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.add %a, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b, %t : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// or what is between the reduction and the sum.

// CHECK-LABEL: module @turned
// CHECK: stablehlo.while
// CHECK: all_reduce
// CHECK: stablehlo.return %{{.*}} : tensor<i32>, tensor<4x8xf32>
module @turned attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %1:4 = stablehlo.while(%i = %z, %a = %y, %b = %x, %e = %y) : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %d = stablehlo.convert %r : tensor<4x8xf32>
      %t = stablehlo.add %a, %d : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b, %d : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// The condition reads the sum so far.

// CHECK-LABEL: module @condition
// CHECK: stablehlo.while
// CHECK: all_reduce
// CHECK: stablehlo.return %{{.*}} : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>
module @condition attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %1:3 = stablehlo.while(%i = %z, %a = %y, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>
    cond {
      %h = stablehlo.slice %a [0:1, 0:1] : (tensor<4x8xf32>) -> tensor<1x1xf32>
      %g = stablehlo.reshape %h : (tensor<1x1xf32>) -> tensor<f32>
      %o = stablehlo.compare EQ, %g, %g : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %m = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %q = stablehlo.and %o, %m : tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.add %a, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}

// -----

/// What is added has been reduced before the loop.

// CHECK-LABEL: module @before
// CHECK: %[[R:.*]] = "stablehlo.all_reduce"(%arg0)
// CHECK: stablehlo.while
// CHECK: stablehlo.add %iterArg{{.*}}, %[[R]]
// CHECK-NOT: all_reduce
module @before attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %l = stablehlo.constant dense<1> : tensor<i32>
    %r = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1:3 = stablehlo.while(%i = %z, %a = %y, %b = %x) : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>
    cond {
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %t = stablehlo.add %a, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %l : tensor<i32>
      stablehlo.return %j, %t, %b : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>
    }
    return %1#1 : tensor<4x8xf32>
  }
}
