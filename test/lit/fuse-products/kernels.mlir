// RUN: hespas-opt %s --fuse-products=own=false --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products=own=false --fuse-products=own=false --split-input-file | filecheck %s

/// XLA's GemmFusion of jaxlib 0.10.2 for an H100 makes the kernels of all cases
/// (hespas-opt --xla-optimize=target=H100_80GB,keep-hlo=FOLDER).

/// A kernel applies elementwise ops, and a mask that is an argument.

// CHECK-LABEL: module @chain
module @chain {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.select
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.maximum
  // CHECK-NEXT: mhlo.return
  // CHECK: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%a: tensor<64x1024xbf16>, %w: tensor<1024x256xbf16>, %gate: tensor<64x256xbf16>, %mask: tensor<64x256xi1>) -> tensor<64x256xbf16> {
    %z = stablehlo.constant dense<0.0> : tensor<64x256xbf16>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.multiply %gate, %0 : tensor<64x256xbf16>
    %2 = stablehlo.select %mask, %1, %z : tensor<64x256xi1>, tensor<64x256xbf16>
    %3 = stablehlo.tanh %2 : tensor<64x256xbf16>
    %4 = stablehlo.maximum %3, %z : tensor<64x256xbf16>
    return %4 : tensor<64x256xbf16>
  }
}

// -----

/// It does not apply one that reads what another op computes,

// CHECK-LABEL: module @computed
module @computed {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> tensor<64x256xf32> {
    %n = stablehlo.tanh %m : tensor<64x256xf32>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.add %0, %n : tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @computed_row
module @computed_row {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %v: tensor<256xf32>) -> tensor<64x256xf32> {
    %e = stablehlo.exponential %v : tensor<256xf32>
    %n = stablehlo.broadcast_in_dim %e, dims = [1] : (tensor<256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %n : tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  }
}

// -----

/// nor the first of two that read its result, as GELU has them,

// CHECK-LABEL: module @gelu
module @gelu {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> tensor<64x256xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.logistic %0 : tensor<64x256xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<64x256xf32>
    return %2 : tensor<64x256xf32>
  }
}

// -----

/// nor a conversion that writes more than it reads, if others read on.

// CHECK-LABEL: module @widened
module @widened {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.convert
  func.func @main(%a: tensor<64x128xbf16>, %w: tensor<128x256xbf16>) -> tensor<64x256xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.negate %0 : tensor<64x256xbf16>
    %2 = stablehlo.convert %1 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %3 = stablehlo.sine %2 : tensor<64x256xf32>
    return %3 : tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @widened_result
module @widened_result {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.convert
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<64x128xbf16>, %w: tensor<128x256xbf16>) -> tensor<64x256xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.convert %0 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  }
}

// -----

// -----

/// Transposes keep batch, rows and columns each in one piece.

// CHECK-LABEL: module @transpose
module @transpose {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  func.func @main(%q: tensor<8x32x16xbf16>, %k: tensor<8x16x64xbf16>) -> tensor<32x64x8xbf16> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x32x16xbf16>, tensor<8x16x64xbf16>) -> tensor<8x32x64xbf16>
    %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<8x32x64xbf16>) -> tensor<32x64x8xbf16>
    return %1 : tensor<32x64x8xbf16>
  }
}

// -----

// CHECK-LABEL: module @split_heads
module @split_heads {
  // CHECK-NOT: mhlo.fusion
  // CHECK: stablehlo.transpose
  func.func @main(%x: tensor<128x16xbf16>, %w: tensor<16x128xbf16>) -> tensor<4x8x32x16xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x16xbf16>, tensor<16x128xbf16>) -> tensor<128x128xbf16>
    %1 = stablehlo.reshape %0 : (tensor<128x128xbf16>) -> tensor<4x32x8x16xbf16>
    %2 = stablehlo.transpose %1, dims = [0, 2, 1, 3] : (tensor<4x32x8x16xbf16>) -> tensor<4x8x32x16xbf16>
    return %2 : tensor<4x8x32x16xbf16>
  }
}

// -----

/// On operands: functions of one value, with a scalar or a broadcast argument.

// CHECK-LABEL: module @operand
module @operand {
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %arg2) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<64x128xbf16>, %s: tensor<128xbf16>, %w: tensor<128x256xbf16>) -> (tensor<64x256xbf16>, tensor<64x128xbf16>) {
    %r = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<128xbf16>) -> tensor<64x128xbf16>
    %t = stablehlo.tanh %x : tensor<64x128xbf16>
    %y = stablehlo.multiply %t, %r : tensor<64x128xbf16>
    %0 = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    return %0, %t : tensor<64x256xbf16>, tensor<64x128xbf16>
  }
}

// -----

/// A product of two values has more operands than results.

// CHECK-LABEL: module @operands
module @operands {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<64x128xbf16>, %s: tensor<64x128xbf16>, %w: tensor<128x256xbf16>) -> tensor<64x256xbf16> {
    %y = stablehlo.multiply %x, %s : tensor<64x128xbf16>
    %0 = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    return %0 : tensor<64x256xbf16>
  }
}

// -----

/// A layer of stacked weights is read in place, and so are weights side by side, in whole tiles.

// CHECK-LABEL: module @slice
module @slice {
  // CHECK: "mhlo.fusion"(%arg1, %arg0)
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<64x128xbf16>, %w: tensor<4x128x256xbf16>) -> tensor<64x256xbf16> {
    %s = stablehlo.slice %w [1:2, 0:128, 0:256] : (tensor<4x128x256xbf16>) -> tensor<1x128x256xbf16>
    %r = stablehlo.reshape %s : (tensor<1x128x256xbf16>) -> tensor<128x256xbf16>
    %0 = stablehlo.dot_general %x, %r, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    return %0 : tensor<64x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @concatenate
module @concatenate {
  // CHECK: "mhlo.fusion"(%arg1, %arg2, %arg0)
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<64x128xbf16>, %w: tensor<128x256xbf16>, %v: tensor<128x64xbf16>) -> tensor<64x320xbf16> {
    %c = stablehlo.concatenate %w, %v, dim = 1 : (tensor<128x256xbf16>, tensor<128x64xbf16>) -> tensor<128x320xbf16>
    %0 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x320xbf16>) -> tensor<64x320xbf16>
    return %0 : tensor<64x320xbf16>
  }
}

// -----

// CHECK-LABEL: module @parts_of_tiles
module @parts_of_tiles {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<64x128xbf16>, %w: tensor<128x240xbf16>, %v: tensor<128x64xbf16>) -> tensor<64x304xbf16> {
    %c = stablehlo.concatenate %w, %v, dim = 1 : (tensor<128x240xbf16>, tensor<128x64xbf16>) -> tensor<128x304xbf16>
    %0 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x304xbf16>) -> tensor<64x304xbf16>
    return %0 : tensor<64x304xbf16>
  }
}

// -----

/// The kernel reads the rows of the left operand in two pieces: what heads computed feature by feature.

// CHECK-LABEL: module @heads
module @heads {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<8x4x16x32xbf16>, %w: tensor<64x128xbf16>) -> tensor<8x32x128xbf16> {
    %t = stablehlo.transpose %x, dims = [0, 3, 1, 2] : (tensor<8x4x16x32xbf16>) -> tensor<8x32x4x16xbf16>
    %r = stablehlo.reshape %t : (tensor<8x32x4x16xbf16>) -> tensor<8x32x64xbf16>
    %0 = stablehlo.dot_general %r, %w, contracting_dims = [2] x [0] : (tensor<8x32x64xbf16>, tensor<64x128xbf16>) -> tensor<8x32x128xbf16>
    return %0 : tensor<8x32x128xbf16>
  }
}

// -----

/// What it contracts is one piece, of which it does not change the order.

// CHECK-LABEL: module @heads_in_order
module @heads_in_order {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<8x16x4x32xbf16>, %w: tensor<64x128xbf16>) -> tensor<8x32x128xbf16> {
    %t = stablehlo.transpose %x, dims = [0, 3, 2, 1] : (tensor<8x16x4x32xbf16>) -> tensor<8x32x4x16xbf16>
    %r = stablehlo.reshape %t : (tensor<8x32x4x16xbf16>) -> tensor<8x32x64xbf16>
    %0 = stablehlo.dot_general %r, %w, contracting_dims = [2] x [0] : (tensor<8x32x64xbf16>, tensor<64x128xbf16>) -> tensor<8x32x128xbf16>
    return %0 : tensor<8x32x128xbf16>
  }
}

// -----


// CHECK-LABEL: module @heads_apart
module @heads_apart {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<8x4x32x16xbf16>, %w: tensor<64x128xbf16>) -> tensor<8x32x128xbf16> {
    %t = stablehlo.transpose %x, dims = [0, 2, 1, 3] : (tensor<8x4x32x16xbf16>) -> tensor<8x32x4x16xbf16>
    %r = stablehlo.reshape %t : (tensor<8x32x4x16xbf16>) -> tensor<8x32x64xbf16>
    %0 = stablehlo.dot_general %r, %w, contracting_dims = [2] x [0] : (tensor<8x32x64xbf16>, tensor<64x128xbf16>) -> tensor<8x32x128xbf16>
    return %0 : tensor<8x32x128xbf16>
  }
}
