// RUN: hespas-opt %s --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products --fuse-products --split-input-file | filecheck %s

/// Elementwise ops that alone read the result, one after the other, belong to the kernel.

// CHECK-LABEL: module @chain
module @chain {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.abs
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.logistic
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.sqrt
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.add
  // CHECK: stablehlo.divide
  // CHECK: stablehlo.maximum
  // CHECK: stablehlo.minimum
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.power
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %m: tensor<16x256xbf16>) -> (tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %u0 = stablehlo.abs %d : tensor<16x256xbf16>
    %u1 = stablehlo.exponential %u0 : tensor<16x256xbf16>
    %u2 = stablehlo.logistic %u1 : tensor<16x256xbf16>
    %u3 = stablehlo.negate %u2 : tensor<16x256xbf16>
    %u4 = stablehlo.rsqrt %u3 : tensor<16x256xbf16>
    %u5 = stablehlo.sqrt %u4 : tensor<16x256xbf16>
    %u6 = stablehlo.tanh %u5 : tensor<16x256xbf16>
    %b0 = stablehlo.add %u6, %m : tensor<16x256xbf16>
    %b1 = stablehlo.divide %b0, %m : tensor<16x256xbf16>
    %b2 = stablehlo.maximum %b1, %m : tensor<16x256xbf16>
    %b3 = stablehlo.minimum %b2, %m : tensor<16x256xbf16>
    %b4 = stablehlo.multiply %b3, %m : tensor<16x256xbf16>
    %b5 = stablehlo.power %b4, %m : tensor<16x256xbf16>
    %b6 = stablehlo.subtract %b5, %m : tensor<16x256xbf16>
    return %b6 : tensor<16x256xbf16>
  }
}

// -----

/// So does a conversion to a narrower type; an op of another kind, here a reversal, does not,

// CHECK-LABEL: module @narrow
module @narrow {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.convert
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.reverse
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xf32>
    %0 = stablehlo.convert %d : (tensor<16x256xf32>) -> tensor<16x256xbf16>
    %1 = stablehlo.reverse %0, dims = [0] : tensor<16x256xbf16>
    return %1 : tensor<16x256xbf16>
  }
}

// -----

/// nor does a conversion to a wider type that others read, a reshape,

// CHECK-LABEL: module @wider
module @wider {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.sine
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xf32>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %0 = stablehlo.convert %d : (tensor<16x256xbf16>) -> tensor<16x256xf32>
    %1 = stablehlo.sine %0 : tensor<16x256xf32>
    return %1 : tensor<16x256xf32>
  }
}

// -----

// CHECK-LABEL: module @view
module @view {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.reshape
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<4096xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %0 = stablehlo.reshape %d : (tensor<16x256xbf16>) -> tensor<4096xbf16>
    return %0 : tensor<4096xbf16>
  }
}

// -----

/// what reads the result together with another op, or in a loop.

// CHECK-LABEL: module @two
module @two {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.abs
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>) -> (tensor<16x256xbf16>, tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %0 = stablehlo.tanh %d : tensor<16x256xbf16>
    %1 = stablehlo.abs %d : tensor<16x256xbf16>
    return %0, %1 : tensor<16x256xbf16>, tensor<16x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @branch
module @branch {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.tanh
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %p: tensor<i1>) -> (tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.tanh %d : tensor<16x256xbf16>
      stablehlo.return %1 : tensor<16x256xbf16>
    }, {
      %1 = stablehlo.constant dense<0.0> : tensor<16x256xbf16>
      stablehlo.return %1 : tensor<16x256xbf16>
    }) : (tensor<i1>) -> tensor<16x256xbf16>
    return %0 : tensor<16x256xbf16>
  }
}

// -----

/// A kernel reads what no kernel of a product computes, and what an earlier one has,

// CHECK-LABEL: module @materialised
module @materialised {
  // CHECK: %[[F:.*]] = "mhlo.fusion"
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%[[F]]
  // CHECK: %[[R:.*]] = stablehlo.reverse
  // CHECK: "mhlo.fusion"(%[[F]], %arg2, %[[A]], %[[R]])
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: stablehlo.multiply
  // CHECK-NEXT: mhlo.return
  // CHECK: return
  func.func @main(%x: tensor<64x128xf32>, %w: tensor<128x256xf32>, %v: tensor<256x128xf32>, %u: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %a = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
    %b = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.add %a, %b : tensor<64x128xf32>
    %r = stablehlo.reverse %u, dims = [0] : tensor<64x128xf32>
    %2 = stablehlo.multiply %1, %r : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// -----

/// but nothing that such kernels may compute.

// CHECK-LABEL: module @sliced
module @sliced {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.add
  func.func @main(%x: tensor<64x128xf32>, %w: tensor<128x256xf32>, %v: tensor<65x256xf32>) -> tensor<64x256xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %s = stablehlo.slice %v [1:65, 0:256] : (tensor<65x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.add %0, %s : tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  }
}

// -----

/// The sum of two products is part of the kernel of the left one, which XLA visits last.

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg2, %arg3)
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %[[F]])
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.add
  func.func @main(%x: tensor<64x128xf32>, %w: tensor<128x256xf32>, %y: tensor<64x512xf32>, %v: tensor<512x256xf32>) -> tensor<64x256xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<64x512xf32>, tensor<512x256xf32>) -> tensor<64x256xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x256xf32>
    return %2 : tensor<64x256xf32>
  }
}

// -----

/// The kernel computes a number that it multiplies its result by, also if something else reads it,

// CHECK-LABEL: module @scale
module @scale {
  // CHECK: %[[ROOT:.*]] = stablehlo.sqrt %arg2 : tensor<bf16>
  // CHECK: %[[P:.*]] = "mhlo.fusion"(%arg2, %arg0, %arg1)
  // CHECK: stablehlo.sqrt %{{.*}} : tensor<bf16>
  // CHECK: %[[SUM:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<bf16>
  // CHECK: stablehlo.broadcast_in_dim %[[SUM]]
  // CHECK: mhlo.return
  // CHECK: return %[[P]], %[[ROOT]]
  func.func @main(%x: tensor<64x128xbf16>, %w: tensor<128x256xbf16>, %a: tensor<bf16>) -> (tensor<64x256xbf16>, tensor<bf16>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.sqrt %a : tensor<bf16>
    %2 = stablehlo.add %1, %1 : tensor<bf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<bf16>) -> tensor<64x256xbf16>
    %4 = stablehlo.multiply %0, %3 : tensor<64x256xbf16>
    return %4, %1 : tensor<64x256xbf16>, tensor<bf16>
  }
}

// -----

/// The kernel also reads a single number that is broadcast, and a view of an argument.

// CHECK-LABEL: module @available
module @available {
  // CHECK: %[[V:.*]] = stablehlo.reshape %arg3
  // CHECK: "mhlo.fusion"(%arg1, %arg0, %arg2, %[[V]])
  // CHECK: stablehlo.multiply
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %s: tensor<bf16>, %m: tensor<4096xbf16>) -> (tensor<16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<bf16>) -> tensor<16x256xbf16>
    %0 = stablehlo.multiply %d, %b : tensor<16x256xbf16>
    %v = stablehlo.reshape %m : (tensor<4096xbf16>) -> tensor<16x256xbf16>
    %1 = stablehlo.add %0, %v : tensor<16x256xbf16>
    return %1 : tensor<16x256xbf16>
  }
}

// -----

/// but not one that is sliced from others, and no vectors.

// CHECK-LABEL: module @parts
module @parts {
  // CHECK: %[[S:.*]] = stablehlo.slice %arg2
  // CHECK: %[[N:.*]] = stablehlo.reshape %[[S]]
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %[[N]])
  // CHECK: %[[V:.*]] = stablehlo.sqrt %arg3
  // CHECK: stablehlo.broadcast_in_dim %[[V]]
  func.func @main(%x: tensor<64x128xbf16>, %w: tensor<128x256xbf16>, %a: tensor<8xbf16>, %v: tensor<256xbf16>) -> tensor<64x256xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.slice %a [2:3] : (tensor<8xbf16>) -> tensor<1xbf16>
    %2 = stablehlo.reshape %1 : (tensor<1xbf16>) -> tensor<bf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<bf16>) -> tensor<64x256xbf16>
    %4 = stablehlo.multiply %0, %3 : tensor<64x256xbf16>
    %5 = stablehlo.sqrt %v : tensor<256xbf16>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<256xbf16>) -> tensor<64x256xbf16>
    %7 = stablehlo.add %4, %6 : tensor<64x256xbf16>
    return %7 : tensor<64x256xbf16>
  }
}

// -----

/// A dimension of size 1 is one of rows as well as of columns.

// CHECK-LABEL: module @units
module @units {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.add {{.*}} : tensor<16x1x256xbf16>
  // CHECK-NEXT: stablehlo.transpose {{.*}} -> tensor<1x16x256xbf16>
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi8>, %m: tensor<16x1x256xbf16>) -> (tensor<1x16x256xbf16>) {
    %c = stablehlo.convert %w : (tensor<1024x256xi8>) -> tensor<1024x256xbf16>
    %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %v = stablehlo.reshape %d : (tensor<16x256xbf16>) -> tensor<16x1x256xbf16>
    %0 = stablehlo.add %v, %m : tensor<16x1x256xbf16>
    %t = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<16x1x256xbf16>) -> tensor<1x16x256xbf16>
    return %t : tensor<1x16x256xbf16>
  }
}
