// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// A result of the program is transposed at the end,

// CHECK-LABEL: module @returned
module @returned {
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.transpose
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>) -> tensor<6x3x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<6x16x3xf32>) -> tensor<6x3x16xf32>
    %2 = stablehlo.tanh %1 : tensor<6x3x16xf32>
    return %2 : tensor<6x3x16xf32>
  }
}

// -----

/// and so is what a sum reads with an argument in its own order,

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.convert %{{.*}} : (tensor<6x16x3xf32>) -> tensor<6x16x3xbf16>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<6x16x3xbf16>)
  // CHECK-NEXT: stablehlo.add %[[T]], %arg2
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %y: tensor<16x6x3xbf16>) -> tensor<16x6x3xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<6x16x3xf32>) -> tensor<16x6x3xf32>
    %2 = stablehlo.convert %1 : (tensor<16x6x3xf32>) -> tensor<16x6x3xbf16>
    %3 = stablehlo.add %2, %y : tensor<16x6x3xbf16>
    return %3 : tensor<16x6x3xbf16>
  }
}

// -----

/// a slice of merged dimensions,

// CHECK-LABEL: module @slice
module @slice {
  // CHECK: stablehlo.convert %{{.*}} : (tensor<6x16x3xf32>) -> tensor<6x16x3xbf16>
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 2, 1] : (tensor<6x16x3xbf16>)
  // CHECK: stablehlo.slice %{{.*}} [1:18, 0:16]
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>) -> tensor<17x16xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<6x16x3xf32>) -> tensor<6x3x16xf32>
    %2 = stablehlo.convert %1 : (tensor<6x3x16xf32>) -> tensor<6x3x16xbf16>
    %3 = stablehlo.reshape %2 : (tensor<6x3x16xbf16>) -> tensor<18x16xbf16>
    %4 = stablehlo.slice %3 [1:18, 0:16] : (tensor<18x16xbf16>) -> tensor<17x16xbf16>
    return %4 : tensor<17x16xbf16>
  }
}

// -----

/// a reshape to other parts,

// CHECK-LABEL: module @reshape
module @reshape {
  // CHECK: stablehlo.convert %{{.*}} : (tensor<6x16x3xf32>) -> tensor<6x16x3xbf16>
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 2, 1] : (tensor<6x16x3xbf16>)
  // CHECK: stablehlo.reshape %{{.*}} -> tensor<12x24xbf16>
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>) -> tensor<12x24xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<6x16x3xf32>) -> tensor<6x3x16xf32>
    %2 = stablehlo.convert %1 : (tensor<6x3x16xf32>) -> tensor<6x3x16xbf16>
    %3 = stablehlo.reshape %2 : (tensor<6x3x16xbf16>) -> tensor<12x24xbf16>
    return %3 : tensor<12x24xbf16>
  }
}

// -----

/// a reduction of two values,

// CHECK-LABEL: module @two
module @two {
  // CHECK: stablehlo.convert %{{.*}} : (tensor<6x16x3xf32>) -> tensor<6x16x3xbf16>
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 2, 1] : (tensor<6x16x3xbf16>)
  // CHECK: stablehlo.reduce{{.*}} dimensions = [2]
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %y: tensor<6x3x16xbf16>) -> tensor<6x3xbf16> {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<6x16x3xf32>) -> tensor<6x3x16xf32>
    %2 = stablehlo.convert %1 : (tensor<6x3x16xf32>) -> tensor<6x3x16xbf16>
    %3:2 = stablehlo.reduce(%2 init: %zero), (%y init: %zero) across dimensions = [2] : (tensor<6x3x16xbf16>, tensor<6x3x16xbf16>, tensor<bf16>, tensor<bf16>) -> (tensor<6x3xbf16>, tensor<6x3xbf16>)
     reducer(%a: tensor<bf16>, %c: tensor<bf16>) (%b: tensor<bf16>, %d: tensor<bf16>) {
      %4 = stablehlo.add %a, %c : tensor<bf16>
      %5 = stablehlo.add %b, %d : tensor<bf16>
      stablehlo.return %4, %5 : tensor<bf16>, tensor<bf16>
    }
    return %3#0 : tensor<6x3xbf16>
  }
}

// -----

/// a broadcast that something else reads too, and one of which a value in another order is made.

// CHECK-LABEL: module @broadcasts
module @broadcasts {
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.reduce{{.*}} dimensions = [1]
  // CHECK: stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<6x3xf32>) -> tensor<3x6xf32>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x16xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.subtract %{{.*}} : tensor<6x16x3xf32>
  // CHECK: stablehlo.reduce{{.*}} dimensions = [0, 1, 2]
  // CHECK: stablehlo.multiply %[[B]], %arg2
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %y: tensor<3x6x16xf32>) -> (tensor<f32>, tensor<3x6x16xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<6x16x3xf32>) -> tensor<3x6x16xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<3x6x16xf32>, tensor<f32>) -> tensor<3x6xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x16xf32>
    %4 = stablehlo.subtract %1, %3 : tensor<3x6x16xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x6x16xf32>, tensor<f32>) -> tensor<f32>
    %6 = stablehlo.multiply %3, %y : tensor<3x6x16xf32>
    return %5, %6 : tensor<f32>, tensor<3x6x16xf32>
  }
}

// -----

/// A transpose of another value moves behind ops of one operand, reshapes and sums,

// CHECK-LABEL: module @arguments
module @arguments {
  // CHECK: stablehlo.tanh %arg0 : tensor<6x8xf32>
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: stablehlo.reshape %{{.*}} -> tensor<6x4x2xf32>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reduce{{.*}} dimensions = [1, 2]
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<6x8xf32>) -> tensor<6xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.tanh %x : tensor<6x8xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
    %2 = stablehlo.negate %1 : tensor<8x6xf32>
    %3 = stablehlo.reshape %2 : (tensor<8x6xf32>) -> tensor<4x2x6xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2x6xf32>, tensor<f32>) -> tensor<6xf32>
    return %4 : tensor<6xf32>
  }
}

// -----

/// not one of what a collective yields, which another pass undoes,

// CHECK-LABEL: module @communicated
module @communicated attributes {mhlo.num_partitions = 2 : i32} {
  // CHECK: %[[R:.*]] = "stablehlo.reduce_scatter"
  // CHECK: %[[C:.*]] = stablehlo.convert %[[R]]
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[C]]
  // CHECK-NEXT: stablehlo.negate %[[T]]
  func.func @main(%x: tensor<6x8xbf16>) -> tensor<4x6xf32> {
    %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %3 = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %3 : tensor<bf16>
    }) : (tensor<6x8xbf16>) -> tensor<6x4xbf16>
    %1 = stablehlo.convert %0 : (tensor<6x4xbf16>) -> tensor<6x4xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
    %4 = stablehlo.negate %2 : tensor<4x6xf32>
    return %4 : tensor<4x6xf32>
  }
}

// -----

/// nor behind ops of two operands, slices and padding: these have the order that products choose.

// CHECK-LABEL: module @kept
module @kept {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK-NEXT: stablehlo.add %[[T]], %arg1
  // CHECK-NEXT: stablehlo.slice %[[T]]
  // CHECK: stablehlo.pad %[[T]]
  func.func @main(%x: tensor<6x8xf32>, %y: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<4x6xf32>, tensor<9x6xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.add %0, %y : tensor<8x6xf32>
    %2 = stablehlo.slice %0 [0:4, 0:6] : (tensor<8x6xf32>) -> tensor<4x6xf32>
    %3 = stablehlo.pad %0, %zero, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<9x6xf32>
    return %1, %2, %3 : tensor<8x6xf32>, tensor<4x6xf32>, tensor<9x6xf32>
  }
}

// -----

/// What is computed of products element by element or row by row has.

// CHECK-LABEL: module @computed
module @computed {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.transpose
  // CHECK: return
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x16x3xf32>, tensor<f32>) -> tensor<6x3xf32>
    %2 = stablehlo.tanh %1 : tensor<6x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<6x3xf32>) -> tensor<6x1x3xf32>
    %4 = stablehlo.transpose %3, dims = [2, 1, 0] : (tensor<6x1x3xf32>) -> tensor<3x1x6xf32>
    %5 = stablehlo.negate %4 : tensor<3x1x6xf32>
    %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x1x6xf32>, tensor<f32>) -> tensor<f32>
    return %6 : tensor<f32>
  }
}

// -----

/// Where two orders meet, what follows has that of the first product: its own, or the plain one.

// CHECK-LABEL: module @first
module @first {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg2, %arg3
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[B]], dims = [1, 2, 0] : (tensor<5x7x6xf32>) -> tensor<7x6x5xf32>
  // CHECK: stablehlo.add %[[T]], %[[A]] : tensor<7x6x5xf32>
  // CHECK: stablehlo.reduce{{.*}} dimensions = [0, 1, 2]
  // CHECK: return
  func.func @main(%x: tensor<7x8xf32>, %w: tensor<8x6x5xf32>, %u: tensor<5x8xf32>, %z: tensor<8x7x6xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<7x8xf32>, tensor<8x6x5xf32>) -> tensor<7x6x5xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<7x6x5xf32>) -> tensor<6x7x5xf32>
    %2 = stablehlo.dot_general %u, %z, contracting_dims = [1] x [0] : (tensor<5x8xf32>, tensor<8x7x6xf32>) -> tensor<5x7x6xf32>
    %3 = stablehlo.transpose %2, dims = [2, 1, 0] : (tensor<5x7x6xf32>) -> tensor<6x7x5xf32>
    %4 = stablehlo.add %3, %1 : tensor<6x7x5xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<6x7x5xf32>, tensor<f32>) -> tensor<f32>
    return %5 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @plain_first
module @plain_first {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg2, %arg3
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[B]], dims = [1, 2, 0] : (tensor<5x7x6xf32>) -> tensor<7x6x5xf32>
  // CHECK: stablehlo.add %[[T]], %[[A]] : tensor<7x6x5xf32>
  func.func @main(%x: tensor<7x8xf32>, %w: tensor<8x6x5xf32>, %u: tensor<5x8xf32>, %z: tensor<8x7x6xf32>) -> tensor<7x6x5xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<7x8xf32>, tensor<8x6x5xf32>) -> tensor<7x6x5xf32>
    %2 = stablehlo.dot_general %u, %z, contracting_dims = [1] x [0] : (tensor<5x8xf32>, tensor<8x7x6xf32>) -> tensor<5x7x6xf32>
    %3 = stablehlo.transpose %2, dims = [1, 2, 0] : (tensor<5x7x6xf32>) -> tensor<7x6x5xf32>
    %4 = stablehlo.add %3, %0 : tensor<7x6x5xf32>
    return %4 : tensor<7x6x5xf32>
  }
}

// -----

// CHECK-LABEL: module @plain_second
module @plain_second {
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg2, %arg3
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[A]], dims = [2, 0, 1] : (tensor<7x6x5xf32>) -> tensor<5x7x6xf32>
  // CHECK: %[[S:.*]] = stablehlo.add %[[B]], %[[T]] : tensor<5x7x6xf32>
  // CHECK: stablehlo.transpose %[[S]], dims = [1, 2, 0]
  func.func @main(%x: tensor<7x8xf32>, %w: tensor<8x6x5xf32>, %u: tensor<5x8xf32>, %z: tensor<8x7x6xf32>) -> tensor<7x6x5xf32> {
    %2 = stablehlo.dot_general %u, %z, contracting_dims = [1] x [0] : (tensor<5x8xf32>, tensor<8x7x6xf32>) -> tensor<5x7x6xf32>
    %3 = stablehlo.transpose %2, dims = [1, 2, 0] : (tensor<5x7x6xf32>) -> tensor<7x6x5xf32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<7x8xf32>, tensor<8x6x5xf32>) -> tensor<7x6x5xf32>
    %4 = stablehlo.add %3, %0 : tensor<7x6x5xf32>
    return %4 : tensor<7x6x5xf32>
  }
}

// -----

/// A concatenation with an argument needs the order of the argument,

// CHECK-LABEL: module @joined_with_argument
module @joined_with_argument {
  // CHECK: stablehlo.tanh %{{.*}} : tensor<2x6x16xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose
  // CHECK-NEXT: stablehlo.concatenate %[[T]], %arg2
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x16xf32>, %y: tensor<2x4x6xf32>) -> tensor<2x20x6xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x16xf32>) -> tensor<2x6x16xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
    %2 = stablehlo.tanh %1 : tensor<2x16x6xf32>
    %3 = stablehlo.concatenate %2, %y, dim = 1 : (tensor<2x16x6xf32>, tensor<2x4x6xf32>) -> tensor<2x20x6xf32>
    return %3 : tensor<2x20x6xf32>
  }
}

// -----

/// and so does one along merged dimensions,

// CHECK-LABEL: module @joined_along_merged
module @joined_along_merged {
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 3, 2, 1]
  // CHECK-NEXT: stablehlo.reshape
  // CHECK-NEXT: stablehlo.concatenate
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x4x5xf32>) -> tensor<2x2x40x6xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x4x5xf32>) -> tensor<2x6x4x5xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 2, 1] : (tensor<2x6x4x5xf32>) -> tensor<2x5x4x6xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x5x4x6xf32>) -> tensor<2x20x6xf32>
    %3 = stablehlo.concatenate %2, %2, dim = 1 : (tensor<2x20x6xf32>, tensor<2x20x6xf32>) -> tensor<2x40x6xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x40x6xf32>) -> tensor<2x1x40x6xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<2x1x40x6xf32>) -> tensor<2x2x40x6xf32>
    return %5 : tensor<2x2x40x6xf32>
  }
}

// -----

/// and one with a value that is divided into other parts.

// CHECK-LABEL: module @joined_with_other_parts
module @joined_with_other_parts {
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 3, 2, 1]
  // CHECK: %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1]
  // CHECK-NEXT: stablehlo.concatenate %{{.*}}, %[[T]], dim = 2
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x4x5xf32>, %v: tensor<2x8x20xf32>) -> tensor<2x20x12xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x4x5xf32>) -> tensor<2x6x4x5xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 2, 1] : (tensor<2x6x4x5xf32>) -> tensor<2x5x4x6xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x5x4x6xf32>) -> tensor<2x20x6xf32>
    %3 = stablehlo.dot_general %x, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x20xf32>) -> tensor<2x6x20xf32>
    %4 = stablehlo.transpose %3, dims = [0, 2, 1] : (tensor<2x6x20xf32>) -> tensor<2x20x6xf32>
    %5 = stablehlo.concatenate %2, %4, dim = 2 : (tensor<2x20x6xf32>, tensor<2x20x6xf32>) -> tensor<2x20x12xf32>
    return %5 : tensor<2x20x12xf32>
  }
}
