// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// The reduction is not computed in the product, but where that is concatenated.

// CHECK-LABEL: module @blocked_user
module @blocked_user {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kInput
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.concatenate
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024xf32>) -> tensor<2048xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.multiply %0, %y : tensor<1024xf32>
    %2 = stablehlo.concatenate %1, %y, dim = 0 : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<2048xf32>
    return %2 : tensor<2048xf32>
  }
}

// -----

/// What is expensive is not computed again for each row of a broadcast;

// CHECK-LABEL: module @repeated_work
module @repeated_work {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kLoop
  // CHECK: stablehlo.power
  // CHECK: stablehlo.power
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> tensor<8x1048576xf32> {
    %0 = stablehlo.power %x, %y : tensor<1048576xf32>
    %a = stablehlo.power %0, %y : tensor<1048576xf32>
    %1 = stablehlo.negate %a : tensor<1048576xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<1048576xf32>) -> tensor<8x1048576xf32>
    return %2 : tensor<8x1048576xf32>
  }
}

// -----

/// A viewed producer after a call is placed after the call.

// CHECK-LABEL: module @viewed_after_call
module @viewed_after_call {
  // CHECK: %[[A:.*]] = stablehlo.custom_call @first(%arg0)
  // CHECK: %[[B:.*]] = stablehlo.negate %[[A]]
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%[[A]]) {{.*}} kInput
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.concatenate
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[D:.*]] = stablehlo.reshape %[[B]]
  // CHECK: %[[E:.*]] = stablehlo.custom_call @kernel(%[[D]])
  // CHECK: return %[[C]], %[[E]]
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<2097152xf32>, tensor<1048576xf32>) {
    %c = stablehlo.custom_call @first(%x) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %0 = stablehlo.negate %c : tensor<1048576xf32>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<2097152xf32>
    %2 = stablehlo.reshape %0 : (tensor<1048576xf32>) -> tensor<1024x1024xf32>
    %3 = stablehlo.custom_call @kernel(%2) : (tensor<1024x1024xf32>) -> tensor<1048576xf32>
    return %1, %3 : tensor<2097152xf32>, tensor<1048576xf32>
  }
}

// -----

/// A row that is also read in another order is stored.

// CHECK-LABEL: module @reversed_rows
module @reversed_rows {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.reverse
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    %3 = stablehlo.reverse %2, dims = [1] : tensor<64x1024xf32>
    %4 = stablehlo.add %2, %3 : tensor<64x1024xf32>
    return %4 : tensor<64x1024xf32>
  }
}

// -----

/// A kernel of several results stands where the last of them stood.

// CHECK-LABEL: module @position
module @position {
  // CHECK: %[[A:.*]] = stablehlo.custom_call @kernel(%arg1)
  // CHECK: %[[B:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]#0, %[[A]], %[[B]]#1
  func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %n = stablehlo.negate %x : tensor<1024xf32>
    %0 = stablehlo.tanh %n : tensor<1024xf32>
    %1 = stablehlo.custom_call @kernel(%y) : (tensor<1024xf32>) -> tensor<1024xf32>
    %2 = stablehlo.cosine %x : tensor<1024xf32>
    return %0, %1, %2 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// A view that is updated in place is made before the kernel.

// CHECK-LABEL: module @viewed_buffer
module @viewed_buffer {
  // CHECK: %[[A:.*]] = stablehlo.custom_call @kernel(%arg0)
  // CHECK: %[[B:.*]] = stablehlo.reshape %[[A]]
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%arg1, %[[B]], %arg2) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<640xf32>, %r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
    %c = stablehlo.custom_call @kernel(%x) : (tensor<640xf32>) -> tensor<640xf32>
    %w = stablehlo.reshape %c : (tensor<640xf32>) -> tensor<10x64xf32>
    %0 = stablehlo.tanh %r : tensor<1x64xf32>
    %1 = stablehlo.dynamic_update_slice %w, %0, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

/// A kernel reads what a view at its start views.

// CHECK-LABEL: module @view_first
module @view_first {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<32x32xf32>) -> tensor<1024xf32> {
    %0 = stablehlo.reshape %x : (tensor<32x32xf32>) -> tensor<1024xf32>
    %1 = stablehlo.negate %0 : tensor<1024xf32>
    %2 = stablehlo.tanh %1 : tensor<1024xf32>
    return %2 : tensor<1024xf32>
  }
}

// -----

/// An op of several results is computed in no other kernel, even if it is a loop.

// CHECK-LABEL: module @several_of_loop
module @several_of_loop {
  // CHECK: %[[A:.*]]:2 = stablehlo.reduce(%arg0 init: %{{.*}}), (%arg1 init: %{{.*}})
  // CHECK: %[[B:.*]] = stablehlo.tanh %[[A]]#0
  // CHECK: return %[[A]]#1, %[[B]]
  func.func @main(%x: tensor<1024x24xf32>, %y: tensor<1024x24xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.reduce(%x init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<1024x24xf32>, tensor<1024x24xf32>, tensor<f32>, tensor<f32>) -> (tensor<1024xf32>, tensor<1024xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }
    %1 = stablehlo.tanh %0#0 : tensor<1024xf32>
    return %0#1, %1 : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// nor is a number that many elements are compared with,

// CHECK-LABEL: module @number
module @number {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.power
  // CHECK: stablehlo.compare
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = stablehlo.select %[[A]], %arg1, %arg2
  // CHECK: return %[[B]]
  func.func @main(%a: tensor<f32>, %x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> tensor<1048576xf32> {
    %0 = stablehlo.power %a, %a : tensor<f32>
    %1 = stablehlo.compare LT, %0, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %x, %y : tensor<i1>, tensor<1048576xf32>
    return %2 : tensor<1048576xf32>
  }
}

// -----

/// unless it is an op with the same operand twice, which an op by itself reads twice, and a fusion once,

// CHECK-LABEL: module @repeated_operand
module @repeated_operand {
  // CHECK: %[[A:.*]] = stablehlo.power %arg0, %arg0
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg0, %arg1) {{.*}} kLoop
  // CHECK: stablehlo.compare
  // CHECK: stablehlo.select
  // CHECK: return %[[B]]
  func.func @main(%a: tensor<f32>, %x: tensor<1048576xf32>) -> tensor<1048576xf32> {
    %0 = stablehlo.power %a, %a : tensor<f32>
    %1 = stablehlo.compare LT, %0, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %x, %x : tensor<i1>, tensor<1048576xf32>
    return %2 : tensor<1048576xf32>
  }
}

// -----

/// or what windows read that overlap,

// CHECK-LABEL: module @windows
module @windows {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.power
  // CHECK-NEXT: mhlo.return
  // CHECK: %[[B:.*]] = "stablehlo.reduce_window"(%[[A]], %{{.*}})
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<1024x1055xf32>) -> tensor<1024x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.power %x, %x : tensor<1024x1055xf32>
    %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    return %1 : tensor<1024x1024xf32>
  }
}

// -----

/// unlike the number from which windows start, which counts once.

// CHECK-LABEL: module @start_of_windows
module @start_of_windows {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg1, %arg0) {{.*}} kLoop
  // CHECK: stablehlo.power
  // CHECK: stablehlo.reduce_window
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<1024x1055xf32>, %a: tensor<f32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.power %a, %a : tensor<f32>
    %1 = "stablehlo.reduce_window"(%x, %0) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    return %1 : tensor<1024x1024xf32>
  }
}

// -----

/// Of what a gather or a slice reads, the elements count that it takes: one kernel computes both parts.

// CHECK-LABEL: module @gathered
module @gathered {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0, %arg1, %arg2) {{.*}} kLoop
  // CHECK: stablehlo.power
  // CHECK: stablehlo.gather
  // CHECK: stablehlo.gather
  // CHECK: {hespas.kernel = {kind = "gather"}}
  // CHECK: return %[[A]]#{{[01]}}, %[[A]]#{{[01]}}
  func.func @main(%x: tensor<16384x64xf32>, %i: tensor<64x1xi32>, %j: tensor<64x1xi32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %0 = stablehlo.power %x, %x : tensor<16384x64xf32>
    %1 = "stablehlo.gather"(%0, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<16384x64xf32>, tensor<64x1xi32>) -> tensor<64x64xf32>
    %2 = "stablehlo.gather"(%0, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<16384x64xf32>, tensor<64x1xi32>) -> tensor<64x64xf32>
    return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

/// Their indices count once,

// CHECK-LABEL: module @index
module @index {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg1, %arg0) {{.*}} kLoop
  // CHECK: stablehlo.power
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dynamic_slice
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<2097152xf32>, %a: tensor<f32>) -> tensor<1048576xf32> {
    %0 = stablehlo.power %a, %a : tensor<f32>
    %i = stablehlo.convert %0 : (tensor<f32>) -> tensor<i32>
    %1 = stablehlo.dynamic_slice %x, %i, sizes = [1048576] : (tensor<2097152xf32>, tensor<i32>) -> tensor<1048576xf32>
    return %1 : tensor<1048576xf32>
  }
}

// -----

/// and so do the values that update a buffer, which is not read itself: their computation hides behind no read of it.

// CHECK-LABEL: module @updated_buffer
module @updated_buffer {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg1) {{.*}} kInput
  // CHECK: stablehlo.power
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = stablehlo.dynamic_update_slice %arg0, %[[A]]#1, %arg2
  // CHECK: return %[[B]], %[[A]]#0
  func.func @main(%w: tensor<67108864xf32>, %x: tensor<1048576xf32>, %i: tensor<i32>) -> (tensor<67108864xf32>, tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.power %x, %x : tensor<1048576xf32>
    %1 = stablehlo.dynamic_update_slice %w, %0, %i : (tensor<67108864xf32>, tensor<1048576xf32>, tensor<i32>) -> tensor<67108864xf32>
    %r = stablehlo.reshape %0 : (tensor<1048576xf32>) -> tensor<1024x1024xf32>
    %2 = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    return %1, %2 : tensor<67108864xf32>, tensor<1024xf32>
  }
}

// -----

/// A scatter that adds reads of its buffer what it updates,

// CHECK-LABEL: module @added_rows
module @added_rows {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg1) {{.*}} kInput
  // CHECK: stablehlo.power
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "stablehlo.scatter"(%arg0, %arg2, %[[A]]#1)
  // CHECK: return %[[B]], %[[A]]#0
  func.func @main(%w: tensor<1048576x64xf32>, %x: tensor<16384x64xf32>, %i: tensor<16384x1xi32>) -> (tensor<1048576x64xf32>, tensor<16384xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.power %x, %x : tensor<16384x64xf32>
    %1 = "stablehlo.scatter"(%w, %i, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1048576x64xf32>, tensor<16384x1xi32>, tensor<16384x64xf32>) -> tensor<1048576x64xf32>
    %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16384x64xf32>, tensor<f32>) -> tensor<16384xf32>
    return %1, %2 : tensor<1048576x64xf32>, tensor<16384xf32>
  }
}

// -----

/// A view that a product reads counts as a user that computes the value without writing it: what the product and a
/// reduction read is not computed in both, but by one kernel with two results.

// CHECK-LABEL: module @viewed
module @viewed {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg{{.}}, %arg{{.}}) {{.*}} kInput
  // CHECK: stablehlo.tanh
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%g: tensor<32768x256xf32>, %h: tensor<32768x256xf32>, %x: tensor<32x1024x64xf32>) -> (tensor<256xf32>, tensor<32x256x64xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<32768x256xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.tanh %h : tensor<32768x256xf32>
    %a = stablehlo.add %ones, %t : tensor<32768x256xf32>
    %b = stablehlo.subtract %ones, %t : tensor<32768x256xf32>
    %1 = stablehlo.multiply %a, %b : tensor<32768x256xf32>
    %2 = stablehlo.multiply %g, %1 : tensor<32768x256xf32>
    %3 = stablehlo.reshape %2 : (tensor<32768x256xf32>) -> tensor<128x256x256xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<128x256x256xf32>, tensor<f32>) -> tensor<128x256xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<128x256xf32>, tensor<f32>) -> tensor<256xf32>
    %6 = stablehlo.reshape %2 : (tensor<32768x256xf32>) -> tensor<32x1024x256xf32>
    %7 = stablehlo.dot_general %6, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<32x1024x256xf32>, tensor<32x1024x64xf32>) -> tensor<32x256x64xf32>
    return %5, %7 : tensor<256xf32>, tensor<32x256x64xf32>
  }
}
