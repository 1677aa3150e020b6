// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// A transposed value has no rows in memory,

// CHECK-LABEL: module @permuted
module @permuted {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg0
  // CHECK: %[[B:.*]] = stablehlo.reduce(%[[A]] init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%[[B]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<64x1x1024xf32>) -> (tensor<1x64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<64x1x1024xf32>) -> tensor<1x64x1024xf32>
    %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<1x64x1024xf32>, tensor<f32>) -> tensor<1x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<1x64x1024xf32>
    %2 = stablehlo.subtract %t, %1 : tensor<1x64x1024xf32>
    return %2 : tensor<1x64x1024xf32>
  }
}

// -----

/// nor has what is computed of it element by element, also through a reshape.

// CHECK-LABEL: module @permuted_steps
module @permuted_steps {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK: %[[R:.*]] = stablehlo.reshape %[[T]]
  // CHECK: %[[A:.*]] = stablehlo.tanh %[[R]]
  // CHECK: %[[S:.*]] = stablehlo.reduce(%[[A]]
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[S]], %[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<64x1x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<64x1x1024xf32>) -> tensor<1x64x1024xf32>
    %r = stablehlo.reshape %t : (tensor<1x64x1024xf32>) -> tensor<64x1024xf32>
    %n = stablehlo.tanh %r : tensor<64x1024xf32>
    %0 = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %n, %1 : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

/// A reduction of the dimension in the middle is none of rows.

// CHECK-LABEL: module @middle
module @middle {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<64x1024x32xf32>) -> (tensor<64x1024x32xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024x32xf32>, tensor<f32>) -> tensor<64x32xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<64x32xf32>) -> tensor<64x1024x32xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024x32xf32>
    return %2 : tensor<64x1024x32xf32>
  }
}

// -----

/// A broadcast, or a reduction, that something else reads ends no diamond:

// CHECK-LABEL: module @broadcast_read_twice
module @broadcast_read_twice {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]]:2 = "mhlo.fusion"(%[[A]], %arg0, %arg1) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]#1, %[[B]]#0
  func.func @main(%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    %3 = stablehlo.add %y, %1 : tensor<64x1024xf32>
    return %2, %3 : tensor<64x1024xf32>, tensor<64x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @reduction_read_twice
module @reduction_read_twice {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]], %[[A]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    return %2, %0 : tensor<64x1024xf32>, tensor<64xf32>
  }
}

// -----

/// the op at its end is an elementwise one of two operands, which are not the same:

// CHECK-LABEL: module @end_is_update
module @end_is_update {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %i = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.dynamic_update_slice %x, %1, %i, %i : (tensor<64x1024xf32>, tensor<64x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @end_is_square
module @end_is_square {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.multiply
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @end_of_three
module @end_of_three {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.clamp
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.clamp %1, %x, %1 : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

/// and of the shape that was reduced.

// CHECK-LABEL: module @end_has_shape
module @end_has_shape {
  // CHECK: %[[A:.*]] = stablehlo.reshape %arg0
  // CHECK: %[[B:.*]] = stablehlo.reduce(%[[A]] init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%[[B]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %r = stablehlo.reshape %x : (tensor<64x1024xf32>) -> tensor<32x2048xf32>
    %0 = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<32x2048xf32>, tensor<f32>) -> tensor<32xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<32xf32>) -> tensor<32x2048xf32>
    %b = stablehlo.reshape %1 : (tensor<32x2048xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %b : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

/// A step repeats no number: here the kernel would start from the predicate.

// CHECK-LABEL: module @scalar_step
module @scalar_step {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.select
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg0) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.select
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%p: tensor<i1>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<64x1024xf32>
    %two = stablehlo.constant dense<2.0> : tensor<64x1024xf32>
    %s = stablehlo.select %p, %one, %two : tensor<i1>, tensor<64x1024xf32>
    %0 = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %t = stablehlo.select %p, %two, %one : tensor<i1>, tensor<64x1024xf32>
    %2 = stablehlo.subtract %t, %1 : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

/// Two diamonds are one kernel if only steps of one operand are between them;

// CHECK-LABEL: module @two_steps
module @two_steps {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.divide
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    %a = stablehlo.negate %2 : tensor<64x1024xf32>
    %3 = stablehlo.exponential %a : tensor<64x1024xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %6 = stablehlo.divide %3, %5 : tensor<64x1024xf32>
    return %6 : tensor<64x1024xf32>
  }
}

// -----

/// they are two if something else reads a value between, and the first is computed again in both.

// CHECK-LABEL: module @read_between
module @read_between {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.divide
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[B]], %[[A]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    %c = stablehlo.cosine %2 : tensor<64x1024xf32>
    %3 = stablehlo.exponential %2 : tensor<64x1024xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %6 = stablehlo.divide %3, %5 : tensor<64x1024xf32>
    return %6, %c : tensor<64x1024xf32>, tensor<64x1024xf32>
  }
}

// -----

/// Dimensions of size 1 on one way of a normalisation do not matter, as those of grouped heads.

// CHECK-LABEL: module @reshaped
module @reshaped {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: applies stablehlo.maximum
  // CHECK: stablehlo.subtract
  // CHECK: mhlo.return
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<64x1x1024xf32>) -> tensor<1x64x1024xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<64x1x1024xf32>, tensor<f32>) -> tensor<64x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x1xf32>) -> tensor<1x64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<1x64x1024xf32>
    %3 = stablehlo.reshape %x : (tensor<64x1x1024xf32>) -> tensor<1x64x1024xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<1x64x1024xf32>
    return %4 : tensor<1x64x1024xf32>
  }
}

// -----

/// The kernel of rows writes them as a product reads them, which alone does,

// CHECK-LABEL: module @transposed_for_product
module @transposed_for_product {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.transpose
  // CHECK: mhlo.return
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<8x64x1024xf32>, %w: tensor<8x1024x16xf32>) -> tensor<64x8x16xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<8x64x1024xf32>) -> tensor<64x8x1024xf32>
    %4 = stablehlo.dot_general %3, %w, contracting_dims = [2] x [1] : (tensor<64x8x1024xf32>, tensor<8x1024x16xf32>) -> tensor<64x8x8x16xf32>
    %5 = stablehlo.slice %4 [0:64, 0:8, 0:1, 0:16] : (tensor<64x8x8x16xf32>) -> tensor<64x8x1x16xf32>
    %6 = stablehlo.reshape %5 : (tensor<64x8x1x16xf32>) -> tensor<64x8x16xf32>
    return %6 : tensor<64x8x16xf32>
  }
}

// -----

/// A program that returns the transpose of one diamond reads its value in both orders, and keeps no rows.

// CHECK-LABEL: module @transposed_and_returned
module @transposed_and_returned {
  // CHECK: %[[R:.*]] = stablehlo.reduce
  // CHECK: "mhlo.fusion"({{.*}}%[[R]]{{.*}}) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<8x64x1024xf32>) -> tensor<64x8x1024xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<8x64x1024xf32>) -> tensor<64x8x1024xf32>
    return %3 : tensor<64x8x1024xf32>
  }
}

// -----

/// The kernel of rows writes what it computes of them as a product reads it, also through a view of its parts.

// CHECK-LABEL: module @transposed_for_parts
module @transposed_for_parts {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<8x64x1024xf32>, %w: tensor<4x256x16xf32>) -> tensor<4x64x8x16xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.negate %2 : tensor<8x64x1024xf32>
    %4 = stablehlo.transpose %3, dims = [2, 1, 0] : (tensor<8x64x1024xf32>) -> tensor<1024x64x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<1024x64x8xf32>) -> tensor<4x256x64x8xf32>
    %6 = stablehlo.dot_general %5, %w, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x256x64x8xf32>, tensor<4x256x16xf32>) -> tensor<4x64x8x16xf32>
    return %6 : tensor<4x64x8x16xf32>
  }
}
