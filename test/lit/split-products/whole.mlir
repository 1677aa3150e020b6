// RUN: hespas-opt %s --split-products=target=H100_80GB --split-input-file | filecheck %s

/// Products of vectors take the time in which they are read, which is the same in parts: by their operations they would
/// be divided.

// CHECK-LABEL: module @vectors
// CHECK: stablehlo.dot_general %arg0, %arg1
// CHECK-NOT: stablehlo.reduce
module @vectors {
  func.func @main(%x: tensor<512x1048576xbf16>, %w: tensor<512x1048576xbf16>) -> tensor<512xbf16> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<512x1048576xbf16>, tensor<512x1048576xbf16>) -> tensor<512xbf16>
    return %0 : tensor<512xbf16>
  }
}

// -----

/// A small product takes less than the launch of a reduction.

// CHECK-LABEL: module @small
// CHECK: stablehlo.dot_general %arg0, %arg1
// CHECK-NOT: stablehlo.reduce
module @small {
  func.func @main(%x: tensor<32x256xbf16>, %w: tensor<256x32xbf16>) -> tensor<32x32xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<32x256xbf16>, tensor<256x32xbf16>) -> tensor<32x32xbf16>
    return %0 : tensor<32x32xbf16>
  }
}

// -----

/// What the left operand is converted of counts as well as what the right one is: 16 parts.

// CHECK-LABEL: module @left
// CHECK: stablehlo.dot_general {{.*}} : (tensor<8192x16x2048xf32>, tensor<16x2048x2xf32>) -> tensor<16x8192x2xf32>
module @left {
  func.func @main(%x: tensor<8192x32768xi8>, %w: tensor<32768x2xf32>) -> tensor<8192x2xf32> {
    %c = stablehlo.convert %x : (tensor<8192x32768xi8>) -> tensor<8192x32768xf32>
    %0 = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<8192x32768xf32>, tensor<32768x2xf32>) -> tensor<8192x2xf32>
    return %0 : tensor<8192x2xf32>
  }
}

// -----

/// An algorithm of three products has six times the operations, so that as small a one is divided. XLA's SplitkRewriter
/// divides it so, too.

// CHECK-LABEL: module @algorithm
// CHECK: stablehlo.dot_general {{.*}} num_primitive_operations = 3, {{.*}} -> tensor<16x32x32xf32>
module @algorithm {
  func.func @main(%x: tensor<32x256xf32>, %w: tensor<256x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<32x256xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}
