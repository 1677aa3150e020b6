// RUN: hespas-opt %s --overlap-transfers --split-input-file | filecheck %s
// RUN: hespas-opt %s --overlap-transfers --overlap-transfers --split-input-file | filecheck %s

/// A copy to the device starts first, and one to the host when its value is made. What only views
/// their operands or results goes with them. The copy that is needed first is the first.

// CHECK-LABEL: module @both_ways
module @both_ways {
  // CHECK: func.func @main(%[[X:.*]]: tensor<512x512xf32>, %[[A:.*]]: tensor<8x512x512xf32>, %[[I:.*]]: tensor<i32>, %[[D:.*]]: tensor<8x512x512xf32>)
  // CHECK: %[[FIRST:.*]] = stablehlo.custom_call @hespas_fetch(%[[A]], %[[I]], %{{.*}}, %{{.*}}) {hespas.comm = {is_async = true, network = "host"}}
  // CHECK-NEXT: %[[SECOND:.*]] = stablehlo.custom_call @hespas_fetch(%[[A]], %{{.*}}, %{{.*}}, %{{.*}}) {hespas.comm = {is_async = true, network = "host"}}
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.tanh %[[X]]
  // CHECK-NEXT: %[[VIEW:.*]] = stablehlo.reshape %[[Y]]
  // CHECK-NEXT: %[[SENT:.*]] = stablehlo.custom_call @hespas_offload(%[[D]], %[[VIEW]]
  // CHECK-NEXT: %[[W1:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[FIRST]]
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[W1]]
  // CHECK-NEXT: %[[Z:.*]] = stablehlo.add %[[Y]], %[[R]]
  // CHECK-NEXT: %[[W2:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[SECOND]]
  // CHECK-NEXT: %[[S:.*]] = stablehlo.reshape %[[W2]]
  // CHECK-NEXT: %[[V:.*]] = stablehlo.multiply %[[Z]], %[[S]]
  // CHECK-NEXT: %[[W3:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[SENT]]
  // CHECK-NEXT: return %[[V]], %[[W3]]
  func.func @main(%x: tensor<512x512xf32>, %a: tensor<8x512x512xf32>, %i: tensor<i32>, %d: tensor<8x512x512xf32>) -> (tensor<512x512xf32>, tensor<8x512x512xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.tanh %x : tensor<512x512xf32>
    %p = stablehlo.custom_call @hespas_fetch(%a, %zero, %zero, %zero) {hespas.comm = {network = "host"}} : (tensor<8x512x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x512x512xf32>
    %s = stablehlo.reshape %p : (tensor<1x512x512xf32>) -> tensor<512x512xf32>
    %q = stablehlo.custom_call @hespas_fetch(%a, %i, %zero, %zero) {hespas.comm = {network = "host"}} : (tensor<8x512x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x512x512xf32>
    %r = stablehlo.reshape %q : (tensor<1x512x512xf32>) -> tensor<512x512xf32>
    %z = stablehlo.add %y, %r : tensor<512x512xf32>
    %v = stablehlo.multiply %z, %s : tensor<512x512xf32>
    %w = stablehlo.reshape %y : (tensor<512x512xf32>) -> tensor<1x512x512xf32>
    %b = stablehlo.custom_call @hespas_offload(%d, %w, %i, %zero, %zero) {hespas.comm = {network = "host"}} : (tensor<8x512x512xf32>, tensor<1x512x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<8x512x512xf32>
    return %v, %b : tensor<512x512xf32>, tensor<8x512x512xf32>
  }
}

// -----

/// Where everything waits for a copy it stays synchronous, and so does a copy of what is made last.

// CHECK-LABEL: module @serial
module @serial {
  // CHECK: stablehlo.custom_call @hespas_fetch(%{{.*}}) {hespas.comm = {network = "host"}}
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.custom_call @hespas_offload(%{{.*}}) {hespas.comm = {network = "host"}}
  // CHECK-NEXT: return
  func.func @main(%a: tensor<512xf32>) -> tensor<512xf32> {
    %0 = stablehlo.custom_call @hespas_fetch(%a) {hespas.comm = {network = "host"}} : (tensor<512xf32>) -> tensor<512xf32>
    %1 = stablehlo.tanh %0 : tensor<512xf32>
    %2 = stablehlo.custom_call @hespas_offload(%1) {hespas.comm = {network = "host"}} : (tensor<512xf32>) -> tensor<512xf32>
    return %2 : tensor<512xf32>
  }
}

// -----

/// An array is written after what reads it, collectives stay where they are, and an asynchronous
/// copy is not changed.

// CHECK-LABEL: module @order
module @order attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[Y:.*]] = stablehlo.tanh
  // CHECK: "stablehlo.all_gather"(%[[Y]]) {{.*}} {hespas.comm = {groups = array<i64: 1>}}
  // CHECK-NEXT: stablehlo.custom_call @hespas_fetch
  // CHECK-NEXT: %[[O:.*]] = stablehlo.custom_call @hespas_offload
  // CHECK-NEXT: stablehlo.cosine
  // CHECK-NEXT: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[O]]
  // CHECK-NEXT: return
  func.func @main(%x: tensor<512xf32>, %a: tensor<8x512xf32>, %i: tensor<i32>) -> (tensor<8x512xf32>, tensor<512xf32>, tensor<2048xf32>) {
    %y = stablehlo.tanh %x : tensor<512xf32>
    %g = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<512xf32>) -> tensor<2048xf32>
    %f = stablehlo.custom_call @hespas_fetch(%a, %i, %i) {hespas.comm = {is_async = true, network = "host"}} : (tensor<8x512xf32>, tensor<i32>, tensor<i32>) -> tensor<1x512xf32>
    %z = stablehlo.cosine %y : tensor<512xf32>
    %b = stablehlo.custom_call @hespas_offload(%a, %f, %i, %i) {hespas.comm = {network = "host"}} : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
    return %b, %z, %g : tensor<8x512xf32>, tensor<512xf32>, tensor<2048xf32>
  }
}
