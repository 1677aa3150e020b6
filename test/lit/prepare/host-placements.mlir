// RUN: hespas-opt %s --prepare --split-input-file | filecheck %s

/// A placement is a copy of the whole value over the link to the host.

// CHECK-LABEL: module @whole
// CHECK: stablehlo.custom_call @hespas_offload(%{{[a-z0-9]*}}) {{.*}}network = "host"
// CHECK: stablehlo.custom_call @hespas_fetch(%{{[a-z0-9]*}}) {{.*}}network = "host"
// CHECK-NOT: custom_call
module @whole {
  func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %host = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %y = stablehlo.add %x, %x : tensor<16x16xf32>
    %back = stablehlo.custom_call @MoveToDevice(%host) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %same = stablehlo.custom_call @annotate_device_placement(%back) {backend_config = ""} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %z = stablehlo.add %y, %same : tensor<16x16xf32>
    return %z : tensor<16x16xf32>
  }
}

// -----

/// A loop fills an array of the host, and a later one reads it: slices are copied, also through a
/// barrier, and the array is allocated there.

// CHECK-LABEL: module @slices
// CHECK: %[[ARRAY:.*]] = stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x16xf32>
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[HOST:.*]] = %[[ARRAY]])
// CHECK: %[[NEW:.*]] = stablehlo.custom_call @hespas_offload(%[[HOST]], %{{.*}}) {{.*}}network = "host"
// CHECK: stablehlo.return %{{.*}}, %[[NEW]]
// CHECK: stablehlo.while
// CHECK: stablehlo.custom_call @hespas_fetch(%{{.*}}) {{.*}}network = "host"
// CHECK-NOT: custom_call
module @slices {
  func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<8> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %empty = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %w:2 = stablehlo.while(%k = %i, %kept = %empty) : tensor<i32>, tensor<8x16xf32>
    cond {
      %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.cosine %x : tensor<16xf32>
      %host = stablehlo.custom_call @MoveToHost(%y) : (tensor<16xf32>) -> tensor<16xf32>
      %row = stablehlo.reshape %host : (tensor<16xf32>) -> tensor<1x16xf32>
      %new = stablehlo.dynamic_update_slice %kept, %row, %k, %i : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
      %next = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %next, %new : tensor<i32>, tensor<8x16xf32>
    }
    %v:2 = stablehlo.while(%k = %i, %sum = %x) : tensor<i32>, tensor<16xf32>
    cond {
      %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %w#1, %k, %i, sizes = [1, 16] : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
      %slice = stablehlo.reshape %row : (tensor<1x16xf32>) -> tensor<16xf32>
      %b:2 = stablehlo.optimization_barrier %slice, %sum : tensor<16xf32>, tensor<16xf32>
      %back = stablehlo.custom_call @MoveToDevice(%b#0) : (tensor<16xf32>) -> tensor<16xf32>
      %next = stablehlo.add %k, %one : tensor<i32>
      %total = stablehlo.add %b#1, %back : tensor<16xf32>
      stablehlo.return %next, %total : tensor<i32>, tensor<16xf32>
    }
    return %v#1 : tensor<16xf32>
  }
}

// -----

/// XLA's partitioner divides what is placed: each device copies its part.

// CHECK-LABEL: module @divided
// CHECK: @hespas_offload{{.*}} {hespas.comm = {network = "host"}} : (tensor<8x16xf32>)
// CHECK: @hespas_fetch{{.*}} {hespas.comm = {network = "host"}} : (tensor<8x16xf32>)
// CHECK-NOT: custom_call
module @divided attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<16x16xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> (tensor<16x16xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) {
    %y = stablehlo.cosine %x : tensor<16x16xf32>
    %host = stablehlo.custom_call @annotate_device_placement(%y) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %back = stablehlo.custom_call @annotate_device_placement(%host) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %z = stablehlo.sine %back : tensor<16x16xf32>
    return %z : tensor<16x16xf32>
  }
}
