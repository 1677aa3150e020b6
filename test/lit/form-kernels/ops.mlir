// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// What the body of a loop captures is read outside of the kernels.

// CHECK-LABEL: module @captured_by_loop
module @captured_by_loop {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.negate
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %arg0)
  // CHECK: return %[[B]]#1, %[[A]]#0
  func.func @main(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %t = stablehlo.tanh %x : tensor<1024xf32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<1024xf32>
     cond {
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %new = stablehlo.multiply %y, %t : tensor<1024xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<1024xf32>
    }
    %1 = stablehlo.negate %t : tensor<1024xf32>
    return %0#1, %1 : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// Calls with side effects stay in their order, though the first waits for a kernel that is complete later.

// CHECK-LABEL: module @effects
module @effects {
  // CHECK: %[[A:.*]] = stablehlo.custom_call @pure(%arg1)
  // CHECK: %[[B:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: stablehlo.custom_call @first(%[[B]]#0) {has_side_effect = true}
  // CHECK: stablehlo.custom_call @second(%arg1) {has_side_effect = true}
  // CHECK: return %[[B]]#1, %[[A]]
  func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
    %n = stablehlo.negate %x : tensor<1024xf32>
    %0 = stablehlo.tanh %n : tensor<1024xf32>
    %1 = stablehlo.custom_call @first(%0) {has_side_effect = true} : (tensor<1024xf32>) -> tensor<1024xf32>
    %2 = stablehlo.custom_call @second(%y) {has_side_effect = true} : (tensor<1024xf32>) -> tensor<1024xf32>
    %3 = stablehlo.custom_call @pure(%y) {has_side_effect = false} : (tensor<1024xf32>) -> tensor<1024xf32>
    %4 = stablehlo.cosine %x : tensor<1024xf32>
    return %4, %3 : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// So do random numbers, and what is sent to or received from others or the host.

// CHECK-LABEL: module @transfers
module @transfers {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: stablehlo.custom_call @first(%[[A]]#0) {has_side_effect = true}
  // CHECK: %[[C:.*]] = stablehlo.rng %{{.*}}, %{{.*}}, %{{.*}}, distribution = UNIFORM
  // CHECK: %[[D:.*]]:2 = "stablehlo.infeed"(%arg2)
  // CHECK: %[[E:.*]] = "stablehlo.outfeed"(%arg1, %arg2)
  // CHECK: %[[F:.*]] = "stablehlo.send"(%arg1, %arg2)
  // CHECK: %[[G:.*]]:2 = "stablehlo.recv"(%arg2)
  // CHECK: return %[[A]]#1, %[[C]], %[[D]]#0, %[[G]]#0, %[[E]], %[[F]]
  func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>, %token: !stablehlo.token) -> (tensor<1024xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, !stablehlo.token, !stablehlo.token) {
    %a = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.constant dense<1.0> : tensor<f32>
    %n = stablehlo.constant dense<8> : tensor<1xi64>
    %m = stablehlo.negate %x : tensor<1024xf32>
    %0 = stablehlo.tanh %m : tensor<1024xf32>
    %1 = stablehlo.custom_call @first(%0) {has_side_effect = true} : (tensor<1024xf32>) -> tensor<1024xf32>
    %2 = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32>
    %3:2 = "stablehlo.infeed"(%token) {infeed_config = ""} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %4 = "stablehlo.outfeed"(%y, %token) {outfeed_config = ""} : (tensor<1024xf32>, !stablehlo.token) -> !stablehlo.token
    %5 = "stablehlo.send"(%y, %token) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1024xf32>, !stablehlo.token) -> !stablehlo.token
    %6:2 = "stablehlo.recv"(%token) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %7 = stablehlo.cosine %x : tensor<1024xf32>
    return %7, %2, %3#0, %6#0, %4, %5 : tensor<1024xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, !stablehlo.token, !stablehlo.token
  }
}

// -----

/// A reshape of a value of unknown size is no view.

// CHECK-LABEL: module @unknown_size
module @unknown_size {
  // CHECK: %[[A:.*]] = stablehlo.dynamic_reshape %arg0, %arg1
  // CHECK: %[[B:.*]] = stablehlo.reshape %[[A]]
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%[[B]]) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<8xf32>, %n: tensor<1xi64>) -> tensor<2x4xf32> {
    %0 = stablehlo.dynamic_reshape %x, %n : (tensor<8xf32>, tensor<1xi64>) -> tensor<?xf32>
    %1 = stablehlo.reshape %0 : (tensor<?xf32>) -> tensor<2x4xf32>
    %2 = stablehlo.tanh %1 : tensor<2x4xf32>
    %3 = stablehlo.reshape %1 : (tensor<2x4xf32>) -> tensor<8xf32>
    %4 = stablehlo.concatenate %3, %3, dim = 0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
    %5 = stablehlo.slice %4 [0:8] : (tensor<16xf32>) -> tensor<8xf32>
    %6 = stablehlo.reshape %5 : (tensor<8xf32>) -> tensor<2x4xf32>
    %7 = stablehlo.add %2, %6 : tensor<2x4xf32>
    return %7 : tensor<2x4xf32>
  }
}

// -----

/// Conversions of bits are views.

// CHECK-LABEL: module @bits
module @bits {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.bitcast_convert
  // CHECK: stablehlo.not
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg1) {{.*}} kLoop
  // CHECK: stablehlo.cosine
  // CHECK: mhlo.bitcast
  // CHECK: stablehlo.negate
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[C:.*]] = stablehlo.reshape %[[B]]
  // CHECK: return %[[A]], %[[C]]
  func.func @main(%x: tensor<1024xf32>, %y: tensor<2048xf32>) -> (tensor<1024xi32>, tensor<2048xf32>) {
    %0 = stablehlo.tanh %x : tensor<1024xf32>
    %1 = stablehlo.bitcast_convert %0 : (tensor<1024xf32>) -> tensor<1024xi32>
    %2 = stablehlo.not %1 : tensor<1024xi32>
    %3 = stablehlo.cosine %y : tensor<2048xf32>
    %4 = "mhlo.bitcast"(%3) : (tensor<2048xf32>) -> tensor<2x1024xf32>
    %5 = stablehlo.negate %4 : tensor<2x1024xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x1024xf32>) -> tensor<2048xf32>
    return %2, %6 : tensor<1024xi32>, tensor<2048xf32>
  }
}

// -----

/// A loop can compute these ops element by element.

// CHECK-LABEL: module @structural
module @structural {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kLoop
  // CHECK: stablehlo.gather
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "gather"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"() {{.*}} kLoop
  // CHECK: stablehlo.iota
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%arg2) {{.*}} kLoop
  // CHECK: stablehlo.pad
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[D:.*]] = "mhlo.fusion"(%arg3) {{.*}} kLoop
  // CHECK: stablehlo.reduce_window
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[E:.*]] = "mhlo.fusion"(%arg4) {{.*}} kLoop
  // CHECK: stablehlo.reverse
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
  func.func @main(%a: tensor<1024x64xf32>, %i: tensor<8x1xi32>, %b: tensor<1000xf32>, %c: tensor<256x130xf32>, %d: tensor<512xf32>) -> (tensor<8x64xf32>, tensor<300xf32>, tensor<1024xf32>, tensor<256x128xf32>, tensor<512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<1024x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
    %1 = stablehlo.tanh %0 : tensor<8x64xf32>
    %2 = stablehlo.iota dim = 0 : tensor<300xf32>
    %3 = stablehlo.tanh %2 : tensor<300xf32>
    %4 = stablehlo.pad %b, %zero, low = [0], high = [24], interior = [0] : (tensor<1000xf32>, tensor<f32>) -> tensor<1024xf32>
    %5 = stablehlo.tanh %4 : tensor<1024xf32>
    %6 = "stablehlo.reduce_window"(%c, %zero) <{window_dimensions = array<i64: 1, 3>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<256x130xf32>, tensor<f32>) -> tensor<256x128xf32>
    %7 = stablehlo.tanh %6 : tensor<256x128xf32>
    %8 = stablehlo.reverse %d, dims = [0] : tensor<512xf32>
    %9 = stablehlo.tanh %8 : tensor<512xf32>
    return %1, %3, %5, %7, %9 : tensor<8x64xf32>, tensor<300xf32>, tensor<1024xf32>, tensor<256x128xf32>, tensor<512xf32>
  }
}

// -----

/// A scatter is made in place, with what computes its updates.

// CHECK-LABEL: module @scattered
module @scattered {
  // CHECK: %[[A:.*]] = stablehlo.negate %arg0
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg2, %[[A]], %arg1) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.scatter
  // CHECK: {hespas.kernel = {kind = "scatter"}}
  // CHECK: return %[[B]]
  func.func @main(%w: tensor<1024x64xf32>, %i: tensor<8x1xi32>, %u: tensor<8x64xf32>) -> tensor<1024x64xf32> {
    %0 = stablehlo.tanh %u : tensor<8x64xf32>
    %n = stablehlo.negate %w : tensor<1024x64xf32>
    %1 = "stablehlo.scatter"(%n, %i, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x64xf32>, tensor<8x1xi32>, tensor<8x64xf32>) -> tensor<1024x64xf32>
    return %1 : tensor<1024x64xf32>
  }
}

// -----

/// Ops that are loops, but more than one operation for each element, are kernels of their own.

// CHECK-LABEL: module @own_kernels
module @own_kernels {
  // CHECK: %[[A:.*]] = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg1, %arg1, %arg1)
  // CHECK: %[[B:.*]] = stablehlo.tanh %[[A]]
  // CHECK: %[[C:.*]] = stablehlo.broadcast %arg2
  // CHECK: %[[D:.*]] = stablehlo.tanh %[[C]]
  // CHECK: %[[E:.*]] = "stablehlo.map"(%arg3)
  // CHECK: %[[F:.*]] = stablehlo.tanh %[[E]]
  // CHECK: %[[G:.*]] = stablehlo.dynamic_iota %arg4, dim = 0
  // CHECK: %[[H:.*]] = stablehlo.tanh %[[G]]
  // CHECK: %[[I:.*]] = stablehlo.dynamic_broadcast_in_dim %arg3, %arg4
  // CHECK: %[[J:.*]] = stablehlo.tanh %[[I]]
  // CHECK: return %[[B]], %[[D]], %[[F]], %[[H]], %[[J]]
  func.func @main(%a: tensor<4x8xf32>, %v: tensor<8xf32>, %b: tensor<16xf32>, %c: tensor<32xf32>, %n: tensor<2xi64>) -> (tensor<4x8xf32>, tensor<3x16xf32>, tensor<32xf32>, tensor<64x2xf32>, tensor<7x32xf32>) {
    %0 = "stablehlo.batch_norm_inference"(%a, %v, %v, %v, %v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.tanh %0 : tensor<4x8xf32>
    %2 = stablehlo.broadcast %b, sizes = [3] : (tensor<16xf32>) -> tensor<3x16xf32>
    %3 = stablehlo.tanh %2 : tensor<3x16xf32>
    %4 = "stablehlo.map"(%c) <{dimensions = array<i64: 0>}> ({
    ^bb0(%x: tensor<f32>):
      %s = stablehlo.cosine %x : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<32xf32>) -> tensor<32xf32>
    %5 = stablehlo.tanh %4 : tensor<32xf32>
    %6 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<2xi64>) -> tensor<64x2xf32>
    %7 = stablehlo.tanh %6 : tensor<64x2xf32>
    %8 = stablehlo.dynamic_broadcast_in_dim %c, %n, dims = [1] : (tensor<32xf32>, tensor<2xi64>) -> tensor<7x32xf32>
    %9 = stablehlo.tanh %8 : tensor<7x32xf32>
    return %1, %3, %5, %7, %9 : tensor<4x8xf32>, tensor<3x16xf32>, tensor<32xf32>, tensor<64x2xf32>, tensor<7x32xf32>
  }
}

// -----

/// Values without elements.

// CHECK-LABEL: module @empty
module @empty {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> {
    %0 = stablehlo.negate %x : tensor<0xf32>
    %1 = stablehlo.tanh %0 : tensor<0xf32>
    return %1 : tensor<0xf32>
  }
}

// -----

/// A broadcast of a constant is itself one: each kernel has a copy, and it is no result.

// CHECK-LABEL: module @constant_broadcast
module @constant_broadcast {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %{{.*}}
  // CHECK: %[[C:.*]] = stablehlo.custom_call @kernel(%[[B]])
  // CHECK: return %[[A]], %[[C]]
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1048576xf32>
    %0 = stablehlo.add %x, %b : tensor<1048576xf32>
    %1 = stablehlo.custom_call @kernel(%b) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

/// The largest elements and their places are one kernel of two results, with what computes both operands.

// CHECK-LABEL: module @places
module @places {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK-DAG: stablehlo.tanh
  // CHECK-DAG: stablehlo.iota
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]#0, %[[A]]#1
  func.func @main(%x: tensor<1024x4096xf32>) -> (tensor<1024xf32>, tensor<1024xi32>) {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.constant dense<0> : tensor<i32>
      %t = stablehlo.tanh %x : tensor<1024x4096xf32>
      %i = stablehlo.iota dim = 1 : tensor<1024x4096xi32>
      %0:2 = stablehlo.reduce(%t init: %z), (%i init: %n) across dimensions = [1] : (tensor<1024x4096xf32>, tensor<1024x4096xi32>, tensor<f32>, tensor<i32>) -> (tensor<1024xf32>, tensor<1024xi32>)
       reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
        %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %q = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
        %r = stablehlo.select %p, %c, %d : tensor<i1>, tensor<i32>
        stablehlo.return %q, %r : tensor<f32>, tensor<i32>
      }
      return %0#0, %0#1 : tensor<1024xf32>, tensor<1024xi32>
  }
}
