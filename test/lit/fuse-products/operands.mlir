// RUN: hespas-opt %s --fuse-products=own=false --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products=own=false --fuse-products=own=false --split-input-file | filecheck %s

/// A product is one kernel with the conversion of its second operand,

// CHECK-LABEL: module @plain
module @plain {
  // CHECK: "mhlo.fusion"(%arg1, %arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: stablehlo.convert
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK-NEXT: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// of its first one,

// CHECK-LABEL: module @first
module @first {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<256x16xi8>) -> (tensor<256x1024xbf16>) {
    %c = stablehlo.convert %w : (tensor<256x16xi8>) -> tensor<256x16xbf16>
    %d = stablehlo.dot_general %c, %x, contracting_dims = [1] x [0] : (tensor<256x16xbf16>, tensor<16x1024xbf16>) -> tensor<256x1024xbf16>
    return %d : tensor<256x1024xbf16>
  }
}

// -----

/// or of both.

// CHECK-LABEL: module @both
module @both {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %y: tensor<16x1024xi8>) -> (tensor<16x256xbf16>) {
    %y8 = stablehlo.convert %y : (tensor<16x1024xi8>) -> tensor<16x1024xbf16>
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %y8, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// A conversion that something else reads stays for that reader.

// CHECK-LABEL: module @shared
module @shared {
  // CHECK: %[[C:.*]] = stablehlo.convert %arg1
  // CHECK-NEXT: %[[F:.*]] = "mhlo.fusion"(%arg1, %arg0)
  // CHECK: return %[[F]], %[[C]]
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>, tensor<1024x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d, %c : tensor<16x256xbf16>, tensor<1024x256xbf16>
  }
}

// -----

/// A conversion to a type of the same size may follow, but not one to a narrower type, which reads more than
/// it makes.

// CHECK-LABEL: module @further
module @further {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xf16>
    %c = stablehlo.convert %c8 : (tensor<1024x256xf16>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @narrower
module @narrower {
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.convert
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.convert
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xf32>
    %c = stablehlo.convert %c8 : (tensor<1024x256xf32>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// One to a type of the same size is part of the kernel too, as in what XLA of jaxlib 0.10.2 compiles.

// CHECK-LABEL: module @same_size
module @same_size {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xf16>) -> (tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xf16>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// Products of doubles have no such kernel.

// CHECK-LABEL: module @doubles
module @doubles {
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.convert
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<256x64xf32>, %v: tensor<64x16xf64>) -> (tensor<256x16xf64>) {
    %c = stablehlo.convert %w : (tensor<256x64xf32>) -> tensor<256x64xf64>
    %d = stablehlo.dot_general %c, %v, contracting_dims = [1] x [0] : (tensor<256x64xf64>, tensor<64x16xf64>) -> tensor<256x16xf64>
    return %d : tensor<256x16xf64>
  }
}

// -----

/// Signs and transposes, before and after the conversion, belong to the kernel; functions of integers do not, and those of the converted values do.

// CHECK-LABEL: module @turned
module @turned {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<256x1024xi8>) -> (tensor<16x256xbf16>) {
    %n = stablehlo.negate %w : tensor<256x1024xi8>
    %c8 = stablehlo.convert %n : (tensor<256x1024xi8>) -> tensor<256x1024xbf16>
    %t = stablehlo.transpose %c8, dims = [1, 0] : (tensor<256x1024xbf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.negate %t : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @functions
module @functions {
  // CHECK: %[[A:.*]] = stablehlo.abs
  // CHECK-NEXT: "mhlo.fusion"(%[[A]], %arg0)
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %n = stablehlo.abs %w : tensor<1024x256xi8>
    %c = stablehlo.convert %n : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @function_after
module @function_after {
  // CHECK: "mhlo.fusion"(%arg1, %arg0)
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %c = stablehlo.tanh %c8 : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// So do scales and offsets that are broadcast, or a constant,

// CHECK-LABEL: module @scaled_add
module @scaled_add {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.add
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<256xbf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.add %c8, %b : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @scaled_divide
module @scaled_divide {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.divide
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<256xbf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.divide %c8, %b : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @scaled_multiply
module @scaled_multiply {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<256xbf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.multiply %c8, %b : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @scaled_subtract
module @scaled_subtract {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<256xbf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.subtract %c8, %b : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @scaled_constant
module @scaled_constant {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.constant
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %b = stablehlo.constant dense<2.0> : tensor<1024x256xbf16>
    %c = stablehlo.multiply %b, %c8 : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// but not a scale that something computes, be it a number,

// CHECK-LABEL: module @scaled_computed
module @scaled_computed {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<bf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %t = stablehlo.tanh %s : tensor<bf16>
    %b = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<bf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.multiply %c8, %b : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// or one for each group of rows,

// CHECK-LABEL: module @scaled_groups
module @scaled_groups {
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.multiply
  // CHECK: return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<8x128x256xi8>, %s: tensor<8x256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<8x128x256xi8>) -> tensor<8x128x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<8x256xbf16>) -> tensor<8x128x256xbf16>
    %c = stablehlo.multiply %c8, %b : tensor<8x128x256xbf16>
    %r = stablehlo.reshape %c : (tensor<8x128x256xbf16>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %r, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// also where the product is divided into other parts of them,

// CHECK-LABEL: module @scaled_other_groups
module @scaled_other_groups {
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.multiply
  // CHECK: return
  func.func @main(%x: tensor<4x16x256xbf16>, %w: tensor<8x128x256xi8>, %s: tensor<8x256xbf16>) -> (tensor<4x16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<8x128x256xi8>) -> tensor<8x128x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<8x256xbf16>) -> tensor<8x128x256xbf16>
    %c = stablehlo.multiply %c8, %b : tensor<8x128x256xbf16>
    %r = stablehlo.reshape %c : (tensor<8x128x256xbf16>) -> tensor<4x256x256xbf16>
    %d = stablehlo.dot_general %x, %r, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x16x256xbf16>, tensor<4x256x256xbf16>) -> tensor<4x16x256xbf16>
    return %d : tensor<4x16x256xbf16>
  }
}

// -----

/// but one for all groups is part of it;

// CHECK-LABEL: module @scaled_columns
module @scaled_columns {
  // CHECK: "mhlo.fusion"(%arg1, %arg2, %arg0)
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<8x128x256xi8>, %s: tensor<256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<8x128x256xi8>) -> tensor<8x128x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [2] : (tensor<256xbf16>) -> tensor<8x128x256xbf16>
    %c = stablehlo.multiply %c8, %b : tensor<8x128x256xbf16>
    %r = stablehlo.reshape %c : (tensor<8x128x256xbf16>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %r, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

/// nor another whole operand, or what something else reads.

// CHECK-LABEL: module @scaled_whole
module @scaled_whole {
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.convert
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.multiply
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<1024x256xbf16>) -> (tensor<16x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %c = stablehlo.multiply %c8, %s : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d : tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @scaled_twice
module @scaled_twice {
  // CHECK: stablehlo.multiply
  // CHECK: "mhlo.fusion"(%arg1, %arg2, %arg0)
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<256xbf16>) -> (tensor<16x256xbf16>, tensor<1024x256xbf16>) {
    %c8 = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<256xbf16>) -> tensor<1024x256xbf16>
    %c = stablehlo.multiply %c8, %b : tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %d, %c : tensor<16x256xbf16>, tensor<1024x256xbf16>
  }
}
