// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// One reduction is not computed in the kernel of another.

// CHECK-LABEL: module @reductions
module @reductions {
  // CHECK: %[[R:.*]] = stablehlo.reduce(%arg0
  // CHECK: stablehlo.reduce(%[[R]]
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<128x256x64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<128x256x64xf32>, tensor<f32>) -> tensor<128x64xf32>
    %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<128x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}

// -----

/// A reduction takes along what reads it alone, and not a step with another operand.

// CHECK-LABEL: module @after
module @after {
  // CHECK: %[[R:.*]] = "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: stablehlo.multiply %[[R]], %arg1
  func.func @main(%x: tensor<4096x256xf32>, %y: tensor<256xf32>) -> tensor<256xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096x256xf32>, tensor<f32>) -> tensor<256xf32>
    %1 = stablehlo.rsqrt %0 : tensor<256xf32>
    %2 = stablehlo.multiply %1, %y : tensor<256xf32>
    return %2 : tensor<256xf32>
  }
}

// -----

/// Nothing is fused into a call, or after it.

// CHECK-LABEL: module @opaque
module @opaque {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK-NEXT: %[[C:.*]] = stablehlo.custom_call @kernel(%[[N]])
  // CHECK-NEXT: stablehlo.tanh %[[C]]
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = stablehlo.negate %x : tensor<1024xf32>
    %1 = stablehlo.custom_call @kernel(%0) : (tensor<1024xf32>) -> tensor<1024xf32>
    %2 = stablehlo.tanh %1 : tensor<1024xf32>
    return %2 : tensor<1024xf32>
  }
}

// -----

/// A view costs nothing: what is before and after it is one kernel, and the view is in it.

// CHECK-LABEL: module @view
module @view {
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  func.func @main(%x: tensor<32x32xf32>) -> tensor<1024xf32> {
    %0 = stablehlo.negate %x : tensor<32x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<32x32xf32>) -> tensor<1024xf32>
    %2 = stablehlo.tanh %1 : tensor<1024xf32>
    return %2 : tensor<1024xf32>
  }
}

// -----

/// A kernel is named for what orders its accesses: a transpose, or the loop over its result.

// CHECK-LABEL: module @kinds
module @kinds {
  // CHECK: stablehlo.transpose
  // CHECK: hespas.kernel = {kind = "transpose"}
  // CHECK: stablehlo.concatenate
  // CHECK: hespas.kernel = {kind = "loop"}
  func.func @main(%x: tensor<512x256xf32>, %y: tensor<256x512xf32>) -> (tensor<256x512xf32>, tensor<512x512xf32>) {
    %0 = stablehlo.negate %x : tensor<512x256xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<512x256xf32>) -> tensor<256x512xf32>
    %2 = stablehlo.tanh %y : tensor<256x512xf32>
    %3 = stablehlo.cosine %y : tensor<256x512xf32>
    %4 = stablehlo.concatenate %2, %3, dim = 0 : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<512x512xf32>
    return %1, %4 : tensor<256x512xf32>, tensor<512x512xf32>
  }
}

// -----

/// An update that only another kernel reads is computed there, with what makes the buffer, if it is no argument.

// CHECK-LABEL: module @updated
module @updated {
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %arg2)
  // CHECK: stablehlo.cosine
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: stablehlo.negate
  // CHECK: mhlo.return
  // CHECK-NOT: mhlo.fusion
  func.func @main(%w: tensor<10x64xf32>, %r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
    %c = stablehlo.cosine %w : tensor<10x64xf32>
    %0 = stablehlo.dynamic_update_slice %c, %r, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    %1 = stablehlo.negate %0 : tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

/// So is a constant buffer.

// CHECK-LABEL: module @updated_constant
module @updated_constant {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.constant
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: stablehlo.negate
  func.func @main(%r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
    %c = stablehlo.constant dense<1.0> : tensor<10x64xf32>
    %0 = stablehlo.dynamic_update_slice %c, %r, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    %1 = stablehlo.negate %0 : tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

/// What is also returned is updated in place,

// CHECK-LABEL: module @updated_and_returned
module @updated_and_returned {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%w: tensor<10x64xf32>, %r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>, tensor<10x64xf32>) {
    %0 = stablehlo.dynamic_update_slice %w, %r, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    %1 = stablehlo.negate %0 : tensor<10x64xf32>
    return %0, %1 : tensor<10x64xf32>, tensor<10x64xf32>
  }
}

// -----

/// and so is the result of a scatter.

// CHECK-LABEL: module @scattered
module @scattered {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%w: tensor<64xf32>, %i: tensor<7x1xi32>, %u: tensor<7xf32>) -> tensor<64xf32> {
    %0 = "stablehlo.scatter"(%w, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      stablehlo.return %q : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %1 = stablehlo.negate %0 : tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}

// -----

/// What reads the buffer is not computed in the kernel that updates it,

// CHECK-LABEL: module @read_and_updated
module @read_and_updated {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%w: tensor<10x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
    %0 = stablehlo.slice %w [0:1, 0:64] : (tensor<10x64xf32>) -> tensor<1x64xf32>
    %1 = stablehlo.dynamic_update_slice %w, %0, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

/// unless it is the slice that is updated.

// CHECK-LABEL: module @slice_updated
module @slice_updated {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NEXT: stablehlo.cosine
  // CHECK-NEXT: stablehlo.dynamic_update_slice
  func.func @main(%w: tensor<10x64xf32>, %i: tensor<i32>, %j: tensor<i32>) -> (tensor<10x64xf32>) {
    %0 = stablehlo.dynamic_slice %w, %i, %j, sizes = [1, 64] : (tensor<10x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
    %1 = stablehlo.cosine %0 : tensor<1x64xf32>
    %2 = stablehlo.dynamic_update_slice %w, %1, %i, %j : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %2 : tensor<10x64xf32>
  }
}

// -----

// CHECK-LABEL: module @other_slice_updated
module @other_slice_updated {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dynamic_slice
  // CHECK: stablehlo.cosine
  // CHECK: mhlo.return
  // CHECK: }) {
  // CHECK: stablehlo.dynamic_update_slice
  func.func @main(%w: tensor<10x64xf32>, %i: tensor<i32>, %j: tensor<i32>) -> (tensor<10x64xf32>) {
    %0 = stablehlo.dynamic_slice %w, %i, %j, sizes = [1, 64] : (tensor<10x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
    %1 = stablehlo.cosine %0 : tensor<1x64xf32>
    %2 = stablehlo.dynamic_update_slice %w, %1, %j, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %2 : tensor<10x64xf32>
  }
}

// -----

/// An op of several results is in no other kernel.

// CHECK-LABEL: module @several
module @several {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.reduce(%x init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<1024x512xf32>, tensor<1024x512xf32>, tensor<f32>, tensor<f32>) -> (tensor<1024xf32>, tensor<1024xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }
    %1 = stablehlo.rsqrt %0#0 : tensor<1024xf32>
    return %1, %0#1 : tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// A reduction may be computed where it is concatenated.

// CHECK-LABEL: module @concatenated
module @concatenated {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.concatenate
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024xf32>) -> (tensor<2048xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.concatenate %0, %y, dim = 0 : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<2048xf32>
    return %1 : tensor<2048xf32>
  }
}

// -----

/// A transpose takes along elementwise ops that read other values too, as its tiles are written.

// CHECK-LABEL: module @transposes
module @transposes {
  // CHECK: "mhlo.fusion"(%arg
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.add
  // CHECK: stablehlo.tanh
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>, %z: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.transpose %y, dims = [1, 0] : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %2 = stablehlo.add %0, %1 : tensor<1024x1024xf32>
    %3 = stablehlo.multiply %2, %z : tensor<1024x1024xf32>
    %4 = stablehlo.tanh %3 : tensor<1024x1024xf32>
    return %4 : tensor<1024x1024xf32>
  }
}
