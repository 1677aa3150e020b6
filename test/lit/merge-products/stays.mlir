// RUN: hespas-opt %s --merge-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --merge-products --merge-products --split-input-file | filecheck %s

/// Products stay apart that contract other dimensions of the shared operand, or of the others,

// CHECK-LABEL: module @contracted
module @contracted {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [0] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

// CHECK-LABEL: module @other_contracted
module @other_contracted {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [1] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// that have other batches,

// CHECK-LABEL: module @batches
module @batches {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<4x4x8xf32>, %w: tensor<4x8x2xf32>) -> (tensor<4x4x2xf32>, tensor<4x4x2xf32>) {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x4x8xf32>, tensor<4x8x2xf32>) -> tensor<4x4x2xf32>
    %1 = stablehlo.dot_general %x, %w, batching_dims = [1] x [0], contracting_dims = [2] x [1] : (tensor<4x4x8xf32>, tensor<4x8x2xf32>) -> tensor<4x4x2xf32>
    return %0, %1 : tensor<4x4x2xf32>, tensor<4x4x2xf32>
  }
}

// -----

// CHECK-LABEL: module @other_batches
module @other_batches {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<4x4x8xf32>, %w: tensor<4x8x4xf32>, %v: tensor<4x8x4xf32>) -> (tensor<4x4x4xf32>, tensor<4x4x4xf32>) {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x4x8xf32>, tensor<4x8x4xf32>) -> tensor<4x4x4xf32>
    %1 = stablehlo.dot_general %x, %v, batching_dims = [0] x [2], contracting_dims = [2] x [1] : (tensor<4x4x8xf32>, tensor<4x8x4xf32>) -> tensor<4x4x4xf32>
    return %0, %1 : tensor<4x4x4xf32>, tensor<4x4x4xf32>
  }
}

// -----

/// whose other operands or results have other types,

// CHECK-LABEL: module @operand_types
module @operand_types {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

// CHECK-LABEL: module @result_types
module @result_types {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>, %v: tensor<16x16xbf16>) -> (tensor<16x16xf32>, tensor<16x16xbf16>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xbf16>
  }
}

// -----

/// or have another precision or algorithm.

// CHECK-LABEL: module @precisions
module @precisions {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

// CHECK-LABEL: module @algorithms
module @algorithms {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// What both have, the merged product has.

// CHECK-LABEL: module @kept_algorithm
module @kept_algorithm {
  // CHECK: stablehlo.dot_general %arg0, {{.*}} contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32,
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// Free dimensions that are not neighbours, or none, cannot be joined.

// CHECK-LABEL: module @apart
module @apart {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x8xf32>, %w: tensor<4x8x2xf32>, %v: tensor<4x8x2xf32>) -> (tensor<16x4x2xf32>, tensor<16x4x2xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<4x8x2xf32>) -> tensor<16x4x2xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<4x8x2xf32>) -> tensor<16x4x2xf32>
    return %0, %1 : tensor<16x4x2xf32>, tensor<16x4x2xf32>
  }
}

// -----

// CHECK-LABEL: module @vectors
module @vectors {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<16x8xf32>, %w: tensor<8xf32>, %v: tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16xf32>
    return %0, %1 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

/// So do those whose free dimensions are at another place.

// CHECK-LABEL: module @free_place
module @free_place {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK-COUNT-2: stablehlo.dot_general
  func.func @main(%x: tensor<4x16x8xf32>, %w: tensor<4x2x8xf32>, %v: tensor<4x8x2xf32>) -> (tensor<4x16x2xf32>, tensor<4x16x2xf32>) {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x16x8xf32>, tensor<4x2x8xf32>) -> tensor<4x16x2xf32>
    %1 = stablehlo.dot_general %x, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x16x8xf32>, tensor<4x8x2xf32>) -> tensor<4x16x2xf32>
    return %0, %1 : tensor<4x16x2xf32>, tensor<4x16x2xf32>
  }
}

// -----

// CHECK-LABEL: module @kept_precision
module @kept_precision {
  // CHECK: stablehlo.dot_general %arg0, {{.*}} contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT]
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// A product with more than 20 times as many columns stays apart.

// CHECK-LABEL: module @low_rank
module @low_rank {
  // CHECK-COUNT-3: stablehlo.dot_general
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<64x32xbf16>, %w: tensor<32x512xbf16>, %a: tensor<32x24xbf16>, %y: tensor<64x32xbf16>, %b: tensor<32x512xbf16>, %c: tensor<32x28xbf16>) -> (tensor<64x512xbf16>, tensor<64x24xbf16>, tensor<64x512xbf16>, tensor<64x28xbf16>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x512xbf16>) -> tensor<64x512xbf16>
    %1 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x24xbf16>) -> tensor<64x24xbf16>
    %2 = stablehlo.dot_general %y, %b, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x512xbf16>) -> tensor<64x512xbf16>
    %3 = stablehlo.dot_general %y, %c, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x28xbf16>) -> tensor<64x28xbf16>
    return %0, %1, %2, %3 : tensor<64x512xbf16>, tensor<64x24xbf16>, tensor<64x512xbf16>, tensor<64x28xbf16>
  }
}
