// RUN: hespas-opt %s --replace-host-placements --split-input-file | filecheck %s
// RUN: hespas-opt %s --replace-host-placements --replace-host-placements --split-input-file | filecheck %s
// RUN: hespas-opt %s --replace-host-placements --split-input-file --mlir-print-debuginfo | filecheck %s --check-prefix=PLACES

/// A placement is a copy of the whole value: JAX's by the memory that it names, and XLA's; one without a memory goes.

// CHECK-LABEL: module @whole
// CHECK: func.func @main(%[[X:.*]]: tensor<16xf32>)
// CHECK-NEXT: %[[A:.*]] = stablehlo.custom_call @hespas_offload(%[[X]]) : (tensor<16xf32>) -> tensor<16xf32>
// CHECK-NEXT: %[[K:.*]] = stablehlo.optimization_barrier %[[A]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.custom_call @hespas_fetch(%[[K]]) : (tensor<16xf32>) -> tensor<16xf32>
// CHECK-NEXT: %[[C:.*]] = stablehlo.custom_call @hespas_offload(%[[B]])
// CHECK-NEXT: %[[L:.*]] = stablehlo.optimization_barrier %[[C]]
// CHECK-NEXT: %[[D:.*]] = stablehlo.custom_call @hespas_fetch(%[[L]])
// CHECK-NEXT: %[[E:.*]] = stablehlo.custom_call @hespas_offload(%[[D]])
// CHECK-NEXT: return %[[D]], %[[E]]
module @whole {
  func.func @main(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    %0 = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<16xf32>) -> tensor<16xf32>
    %k0 = stablehlo.optimization_barrier %0 : tensor<16xf32>
    %1 = stablehlo.custom_call @annotate_device_placement(%k0) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<16xf32>) -> tensor<16xf32>
    %2 = stablehlo.custom_call @MoveToHost(%1) : (tensor<16xf32>) -> tensor<16xf32>
    %k2 = stablehlo.optimization_barrier %2 : tensor<16xf32>
    %3 = stablehlo.custom_call @MoveToDevice(%k2) : (tensor<16xf32>) -> tensor<16xf32>
    %4 = stablehlo.custom_call @annotate_device_placement(%3) {backend_config = ""} : (tensor<16xf32>) -> tensor<16xf32>
    %5 = "mhlo.custom_call"(%4) {call_target_name = "annotate_device_placement", mhlo.frontend_attributes = {_xla_buffer_placement = "unpinned_host"}} : (tensor<16xf32>) -> tensor<16xf32>
    return %4, %5 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

/// A loop fills an array of the host, and a later one reads it: slices are copied, also through a
/// barrier, and the array is allocated there.

// PLACES-LABEL: module @slices
// PLACES: custom_call @AllocateBuffer() {{.*}} loc(#[[L:.*]])
// PLACES: #[[L]] = loc("empty array")
// CHECK-LABEL: module @slices
// CHECK-NOT: broadcast_in_dim
// CHECK: %[[ARRAY:.*]] = stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x16xf32>
// CHECK-NEXT: stablehlo.while(%{{.*}} = %{{.*}}, %[[HOST:.*]] = %[[ARRAY]])
// CHECK: %[[Y:.*]] = stablehlo.cosine
// CHECK-NEXT: %[[ROW:.*]] = stablehlo.reshape %[[Y]]
// CHECK-NEXT: %[[NEW:.*]] = stablehlo.custom_call @hespas_offload(%[[HOST]], %[[ROW]], %{{.*}}, %{{.*}}) : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
// CHECK: stablehlo.return %{{.*}}, %[[NEW]]
// CHECK: stablehlo.while
// CHECK: %[[SLICE:.*]] = stablehlo.custom_call @hespas_fetch(%{{.*}}#1, %{{.*}}, %{{.*}}) : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
// CHECK-NEXT: %[[VIEW:.*]] = stablehlo.reshape %[[SLICE]]
// CHECK-NEXT: %[[B:.*]]:2 = stablehlo.optimization_barrier %{{.*}}, %[[VIEW]]
// CHECK-NOT: custom_call
// CHECK: stablehlo.add %[[B]]#0, %[[B]]#1
module @slices {
  func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<8> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %empty = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x16xf32> loc("empty array")
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
      %b:2 = stablehlo.optimization_barrier %sum, %slice : tensor<16xf32>, tensor<16xf32>
      %back = stablehlo.custom_call @MoveToDevice(%b#1) : (tensor<16xf32>) -> tensor<16xf32>
      %next = stablehlo.add %k, %one : tensor<i32>
      %total = stablehlo.add %b#0, %back : tensor<16xf32>
      stablehlo.return %next, %total : tensor<i32>, tensor<16xf32>
    }
    return %v#1 : tensor<16xf32>
  }
}

// -----

/// One value is written into two arrays, through a broadcast and a view of XLA; an array that another op reads too
/// is computed and allocated.

// CHECK-LABEL: module @two
// CHECK: func.func @main(%[[X:.*]]: tensor<16xf32>,
// CHECK: %[[EMPTY:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = []
// CHECK-NEXT: stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x16xf32>
// CHECK: %[[ROW:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [1]
// CHECK: stablehlo.custom_call @hespas_offload(%{{.*}}, %[[ROW]], %{{.*}}, %{{.*}}) : (tensor<8x16xf32>
// CHECK: %[[VIEW:.*]] = mhlo.bitcast %[[X]]
// CHECK: stablehlo.custom_call @hespas_offload(%{{.*}}, %[[VIEW]], %{{.*}}, %{{.*}}) : (tensor<4x16xf32>
// CHECK-NOT: custom_call
// CHECK: stablehlo.tanh %[[EMPTY]]
module @two {
  func.func @main(%x: tensor<16xf32>, %other: tensor<4x16xf32>, %p: tensor<i1>) -> (tensor<8x16xf32>, tensor<4x16xf32>, tensor<8x16xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %empty = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %w:3 = stablehlo.while(%q = %p, %a = %empty, %b = %other) : tensor<i1>, tensor<8x16xf32>, tensor<4x16xf32>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %host = stablehlo.custom_call @MoveToHost(%x) : (tensor<16xf32>) -> tensor<16xf32>
      %row = stablehlo.broadcast_in_dim %host, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
      %a1 = stablehlo.dynamic_update_slice %a, %row, %i, %i : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
      %view = "mhlo.bitcast"(%host) : (tensor<16xf32>) -> tensor<1x16xf32>
      %b1 = stablehlo.dynamic_update_slice %b, %view, %i, %i : (tensor<4x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<4x16xf32>
      stablehlo.return %q, %a1, %b1 : tensor<i1>, tensor<8x16xf32>, tensor<4x16xf32>
    }
    %t = stablehlo.tanh %empty : tensor<8x16xf32>
    return %w#1, %w#2, %t : tensor<8x16xf32>, tensor<4x16xf32>, tensor<8x16xf32>
  }
}

// -----

/// A value is copied as a whole if something else reads it too, if it is the array and not the slice of an update,
/// if nothing reads it, or if it comes from another op than a slice.

// CHECK-LABEL: module @kept
// CHECK: %[[A:.*]] = stablehlo.custom_call @hespas_offload(%{{[a-z0-9]*}}) : (tensor<1x16xf32>)
// CHECK-NEXT: stablehlo.dynamic_update_slice %{{.*}}, %[[A]],
// CHECK-NEXT: stablehlo.negate %[[A]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.custom_call @hespas_offload(%{{[a-z0-9]*}}) : (tensor<8x16xf32>)
// CHECK-NEXT: stablehlo.dynamic_update_slice %[[B]],
// CHECK-NEXT: %[[T:.*]] = stablehlo.custom_call @kernel
// CHECK-NEXT: stablehlo.custom_call @hespas_fetch(%[[T]]) :
// CHECK-NEXT: stablehlo.custom_call @hespas_offload(%[[T]]) :
module @kept {
  func.func @main(%x: tensor<1x16xf32>, %y: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<1x16xf32>, tensor<8x16xf32>, tensor<1x16xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.custom_call @MoveToHost(%x) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %1 = stablehlo.dynamic_update_slice %y, %0, %i, %i : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
    %2 = stablehlo.negate %0 : tensor<1x16xf32>
    %3 = stablehlo.custom_call @MoveToHost(%y) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %4 = stablehlo.dynamic_update_slice %3, %x, %i, %i : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
    %5 = stablehlo.custom_call @kernel(%x) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %6 = stablehlo.custom_call @MoveToDevice(%5) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %7 = stablehlo.custom_call @MoveToHost(%5) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    return %1, %2, %4, %6 : tensor<8x16xf32>, tensor<1x16xf32>, tensor<8x16xf32>, tensor<1x16xf32>
  }
}

// -----

/// Only an array of one number is allocated: one that is computed is needed.

// CHECK-LABEL: module @computed
// CHECK: %[[START:.*]] = stablehlo.tanh
// CHECK-NEXT: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[START]])
module @computed {
  func.func @main(%x: tensor<1x16xf32>, %y: tensor<8x16xf32>, %p: tensor<i1>) -> tensor<8x16xf32> {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.tanh %y : tensor<8x16xf32>
    %w:2 = stablehlo.while(%q = %p, %a = %start) : tensor<i1>, tensor<8x16xf32>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %host = stablehlo.custom_call @MoveToHost(%x) : (tensor<1x16xf32>) -> tensor<1x16xf32>
      %new = stablehlo.dynamic_update_slice %a, %host, %i, %i : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
      stablehlo.return %q, %new : tensor<i1>, tensor<8x16xf32>
    }
    return %w#1 : tensor<8x16xf32>
  }
}

// -----

/// An argument is fetched as a whole, and other calls read slices as before.

// CHECK-LABEL: module @calls
// CHECK: func.func @main(%[[X:.*]]: tensor<16xf32>, %[[Y:.*]]: tensor<8x16xf32>
// CHECK: %[[A:.*]] = stablehlo.custom_call @hespas_fetch(%[[X]]) : (tensor<16xf32>) -> tensor<16xf32>
// CHECK-NEXT: %[[S:.*]] = stablehlo.dynamic_slice %[[Y]],
// CHECK-NEXT: %[[K:.*]] = stablehlo.custom_call @kernel(%[[S]]) : (tensor<1x16xf32>)
// CHECK-NEXT: return %[[A]], %[[K]]
module @calls {
  func.func @main(%x: tensor<16xf32>, %y: tensor<8x16xf32>, %i: tensor<i32>) -> (tensor<16xf32>, tensor<1x16xf32>) {
    %0 = stablehlo.custom_call @MoveToDevice(%x) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = stablehlo.dynamic_slice %y, %i, %i, sizes = [1, 16] : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %2 = stablehlo.custom_call @kernel(%1) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    return %0, %2 : tensor<16xf32>, tensor<1x16xf32>
  }
}
