// RUN: hespas-opt %s --copy-kept-values --split-input-file | filecheck %s
// RUN: hespas-opt %s --copy-kept-values --copy-kept-values --split-input-file | filecheck %s

/// An argument that is not donated is copied before an update, also of a view; a donated one is updated in place.

// CHECK-LABEL: module @update
module @update {
  // CHECK: %[[C:.*]] = mhlo.copy %arg0 : tensor<8x4xf32>
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[C]], %arg2
  // CHECK: stablehlo.dynamic_update_slice %arg1, %arg2
  // CHECK: %[[V:.*]] = stablehlo.reshape %arg0
  // CHECK-NEXT: %[[D:.*]] = mhlo.copy %[[V]] : tensor<32xf32>
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[D]]
  func.func @main(%kept: tensor<8x4xf32>, %given: tensor<8x4xf32> {tf.aliasing_output = 1 : i32}, %u: tensor<1x4xf32>, %i: tensor<i32>, %part: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<32xf32>) {
    %0 = stablehlo.dynamic_update_slice %kept, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %1 = stablehlo.dynamic_update_slice %given, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %flat = stablehlo.reshape %kept : (tensor<8x4xf32>) -> tensor<32xf32>
    %2 = stablehlo.dynamic_update_slice %flat, %part, %i : (tensor<32xf32>, tensor<4xf32>, tensor<i32>) -> tensor<32xf32>
    return %0, %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<32xf32>
  }
}

// -----

/// So is one that the last op of a fusion updates, and one that a loop changes; what a loop only reads, and single numbers, are not.

// CHECK-LABEL: module @bodies
module @bodies {
  // CHECK: %[[C:.*]] = mhlo.copy %arg0 : tensor<8xf32>
  // CHECK-NEXT: "mhlo.fusion"(%[[C]], %arg1)
  // CHECK: %[[D:.*]] = mhlo.copy %arg0 : tensor<8xf32>
  // CHECK-NOT: mhlo.copy
  // CHECK: stablehlo.while({{.*}} = %arg2, {{.*}} = %[[D]], {{.*}} = %arg0)
  func.func @main(%x: tensor<8xf32>, %u: tensor<1xf32>, %n: tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = "mhlo.fusion"(%x, %u) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<8xf32>, %b: tensor<1xf32>):
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.negate %b : tensor<1xf32>
      %d = stablehlo.dynamic_update_slice %a, %c, %zero : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
      mhlo.return %d : tensor<8xf32>
    }) : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
    %1:3 = stablehlo.while(%i = %n, %y = %x, %z = %x) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %sum = stablehlo.add %y, %z : tensor<8xf32>
      stablehlo.return %next, %sum, %z : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %0, %1#1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// An all-reduce writes to the buffer that it reads, and an all-gather does not.

// CHECK-LABEL: module @all_reduce
module @all_reduce attributes {mhlo.num_partitions = 2 : i32} {
  // CHECK: %[[C:.*]] = mhlo.copy %arg0 : tensor<8xf32>
  // CHECK-NEXT: "stablehlo.all_reduce"(%[[C]])
  // CHECK-NOT: mhlo.copy
  // CHECK: "stablehlo.all_gather"(%arg0)
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<16xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<8xf32>) -> tensor<16xf32>
    return %0, %1 : tensor<8xf32>, tensor<16xf32>
  }
}
