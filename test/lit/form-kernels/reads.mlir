// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// What a call reads through a view is computed for the call, and again in the kernel of another reader;
/// what it reads itself is not.

// CHECK-LABEL: module @viewed
module @viewed {
  // CHECK-DAG: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK-DAG: stablehlo.reshape %[[N]]
  // CHECK-DAG: "mhlo.fusion"(%arg0)
  // CHECK: return
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<2097152xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.negate %x : tensor<1048576xf32>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<2097152xf32>
    %2 = stablehlo.reshape %0 : (tensor<1048576xf32>) -> tensor<1024x1024xf32>
    %3 = stablehlo.custom_call @kernel(%2) : (tensor<1024x1024xf32>) -> tensor<1048576xf32>
    return %1, %3 : tensor<2097152xf32>, tensor<1048576xf32>
  }
}

// -----

// CHECK-LABEL: module @read
module @read {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK: "mhlo.fusion"(%[[N]])
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor
  // CHECK-NEXT: stablehlo.concatenate %[[A]], %[[A]]
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<2097152xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.negate %x : tensor<1048576xf32>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<2097152xf32>
    %3 = stablehlo.custom_call @kernel(%0) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    return %1, %3 : tensor<2097152xf32>, tensor<1048576xf32>
  }
}

// -----

/// A product of more than two dimensions reads its operands through views, which make them matrices.

// CHECK-LABEL: module @product
module @product {
  // CHECK-DAG: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK-DAG: stablehlo.dot_general %[[N]]
  // CHECK-DAG: "mhlo.fusion"(%arg0)
  // CHECK: return
  func.func @main(%x: tensor<8x128x1024xf32>, %w: tensor<1024x64xf32>) -> (tensor<16x128x1024xf32>, tensor<8x128x64xf32>) {
    %0 = stablehlo.negate %x : tensor<8x128x1024xf32>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<8x128x1024xf32>, tensor<8x128x1024xf32>) -> tensor<16x128x1024xf32>
    %3 = stablehlo.dot_general %0, %w, contracting_dims = [2] x [0] : (tensor<8x128x1024xf32>, tensor<1024x64xf32>) -> tensor<8x128x64xf32>
    return %1, %3 : tensor<16x128x1024xf32>, tensor<8x128x64xf32>
  }
}

// -----

// CHECK-LABEL: module @matrices
module @matrices {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK: "mhlo.fusion"(%[[N]])
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor
  // CHECK-NEXT: stablehlo.concatenate %[[A]], %[[A]]
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<1024x1024xf32>, %w: tensor<1024x64xf32>) -> (tensor<2048x1024xf32>, tensor<1024x64xf32>) {
    %0 = stablehlo.negate %x : tensor<1024x1024xf32>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
    %3 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x64xf32>) -> tensor<1024x64xf32>
    return %1, %3 : tensor<2048x1024xf32>, tensor<1024x64xf32>
  }
}

// -----

/// A transpose of dimensions of 1, and a broadcast that adds some, are views.

// CHECK-LABEL: module @transposed
module @transposed {
  // CHECK: stablehlo.transpose
  // CHECK: {hespas.kernel = {kind = "loop"}}
  func.func @main(%x: tensor<1x1024xf32>) -> (tensor<1024x1xf32>) {
    %0 = stablehlo.negate %x : tensor<1x1024xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<1x1024xf32>) -> tensor<1024x1xf32>
    %2 = stablehlo.tanh %1 : tensor<1024x1xf32>
    return %2 : tensor<1024x1xf32>
  }
}

// -----

// CHECK-LABEL: module @unit_broadcast
module @unit_broadcast {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024xf32>) -> (tensor<1x1024xf32>) {
    %0 = stablehlo.tanh %x : tensor<1024xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<1024xf32>) -> tensor<1x1024xf32>
    return %1 : tensor<1x1024xf32>
  }
}

// -----

/// Each kernel has its own copy of a broadcast of a constant, though a call reads it, too.

// CHECK-LABEL: module @constants
module @constants {
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.add
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1048576xf32>
    %0 = stablehlo.add %x, %b : tensor<1048576xf32>
    %1 = stablehlo.custom_call @kernel(%b) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

/// A constant of many numbers is read from memory.

// CHECK-LABEL: module @large
module @large {
  // CHECK: %[[C:.*]] = stablehlo.constant
  // CHECK: "mhlo.fusion"(%arg0, %[[C]])
  func.func @main(%x: tensor<65xf32>) -> (tensor<65xf32>) {
    %c = stablehlo.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0, 40.0, 41.0, 42.0, 43.0, 44.0, 45.0, 46.0, 47.0, 48.0, 49.0, 50.0, 51.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0, 60.0, 61.0, 62.0, 63.0, 64.0]> : tensor<65xf32>
    %0 = stablehlo.add %x, %c : tensor<65xf32>
    %1 = stablehlo.tanh %0 : tensor<65xf32>
    return %1 : tensor<65xf32>
  }
}

// -----

/// An op whose body captures a value is no part of a kernel, unless the value is a constant.

// CHECK-LABEL: module @captured
module @captured {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024x1024xf32>, %s: tensor<f32>) -> (tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.negate %x : tensor<1024x1024xf32>
    %0 = stablehlo.reduce(%n init: %zero) across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %u = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %u, %s : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }
    return %0 : tensor<1024xf32>
  }
}

// -----

// CHECK-LABEL: module @captured_constant
module @captured_constant {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.maximum
  func.func @main(%x: tensor<1024x1024xf32>) -> (tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.negate %x : tensor<1024x1024xf32>
    %0 = stablehlo.reduce(%n init: %zero) across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %u = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %u, %zero : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }
    return %0 : tensor<1024xf32>
  }
}

// -----

/// A constant that is updated in place must exist before: no kernel has a copy.

// CHECK-LABEL: module @constant_buffer
module @constant_buffer {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
    %zeros = stablehlo.constant dense<0.0> : tensor<10x64xf32>
    %1 = stablehlo.dynamic_update_slice %zeros, %r, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

// CHECK-LABEL: module @constant_buffer_kernel
module @constant_buffer_kernel {
  // CHECK: %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<10x64xf32>
  // CHECK: "mhlo.fusion"(%arg0, %[[Z]], %arg1)
  func.func @main(%r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
    %zeros = stablehlo.constant dense<0.0> : tensor<10x64xf32>
    %0 = stablehlo.tanh %r : tensor<1x64xf32>
    %1 = stablehlo.dynamic_update_slice %zeros, %0, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

/// The kernel of a product reads through views what it multiplies in more dimensions than a batch of matrices, also after
/// a conversion, but not what it adds.

// CHECK-LABEL: module @product_kernel
module @product_kernel {
  // CHECK-DAG: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK-DAG: %[[B:.*]] = stablehlo.negate %arg2
  // CHECK-DAG: "mhlo.fusion"(%[[N]], %arg1, %[[B]]) {{.*}} kCustom
  // CHECK-DAG: "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK-DAG: "mhlo.fusion"(%[[B]]) <{fusion_kind = #mhlo<fusion_kind kInput>}>
  func.func @main(%x: tensor<8x4x128x256xbf16>, %w: tensor<8x4x256x64xf32>, %b: tensor<8x4x128x64xf32>) -> (tensor<16x4x128x256xbf16>, tensor<16x4x128x64xf32>, tensor<8x4x128x64xf32>) {
    %0 = stablehlo.negate %x : tensor<8x4x128x256xbf16>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<8x4x128x256xbf16>, tensor<8x4x128x256xbf16>) -> tensor<16x4x128x256xbf16>
    %2 = stablehlo.negate %b : tensor<8x4x128x64xf32>
    %3 = stablehlo.concatenate %2, %2, dim = 0 : (tensor<8x4x128x64xf32>, tensor<8x4x128x64xf32>) -> tensor<16x4x128x64xf32>
    %4 = "mhlo.fusion"(%0, %w, %2) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%l: tensor<8x4x128x256xbf16>, %r: tensor<8x4x256x64xf32>, %c: tensor<8x4x128x64xf32>):
      %5 = stablehlo.convert %l : (tensor<8x4x128x256xbf16>) -> tensor<8x4x128x256xf32>
      %6 = stablehlo.dot_general %5, %r, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<8x4x128x256xf32>, tensor<8x4x256x64xf32>) -> tensor<8x4x128x64xf32>
      %7 = stablehlo.add %6, %c : tensor<8x4x128x64xf32>
      mhlo.return %7 : tensor<8x4x128x64xf32>
    }) {hespas.kernel = {kind = "gemm"}} : (tensor<8x4x128x256xbf16>, tensor<8x4x256x64xf32>, tensor<8x4x128x64xf32>) -> tensor<8x4x128x64xf32>
    return %1, %3, %4 : tensor<16x4x128x256xbf16>, tensor<16x4x128x64xf32>, tensor<8x4x128x64xf32>
  }
}

// -----

/// One batch of matrices is what its kernel multiplies.

// CHECK-LABEL: module @matrix_kernel
module @matrix_kernel {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK: "mhlo.fusion"(%[[N]])
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor
  // CHECK-NEXT: stablehlo.concatenate %[[A]], %[[A]]
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<8x128x256xbf16>, %w: tensor<8x256x64xbf16>) -> (tensor<16x128x256xbf16>, tensor<8x128x64xbf16>) {
    %0 = stablehlo.negate %x : tensor<8x128x256xbf16>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<8x128x256xbf16>, tensor<8x128x256xbf16>) -> tensor<16x128x256xbf16>
    %2 = "mhlo.fusion"(%0, %w) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%l: tensor<8x128x256xbf16>, %r: tensor<8x256x64xbf16>):
      %3 = stablehlo.dot_general %l, %r, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x128x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x128x64xbf16>
      %4 = stablehlo.tanh %3 : tensor<8x128x64xbf16>
      mhlo.return %4 : tensor<8x128x64xbf16>
    }) {hespas.kernel = {kind = "gemm"}} : (tensor<8x128x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x128x64xbf16>
    return %1, %2 : tensor<16x128x256xbf16>, tensor<8x128x64xbf16>
  }
}
