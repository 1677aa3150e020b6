// RUN: hespas-opt %s --fuse-epilogues --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-epilogues --fuse-epilogues --split-input-file | filecheck %s

/// Scale, bias and ReLU belong to the product, whose kernel has a copy of the constants.

// CHECK-LABEL: module @epilogue
module @epilogue {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0, %arg1, %arg2) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.add
  // CHECK: stablehlo.maximum
  // CHECK: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%a: tensor<64x1024xbf16>, %w: tensor<1024x256xbf16>, %bias: tensor<256xbf16>) -> tensor<64x256xbf16> {
    %s = stablehlo.constant dense<0.125> : tensor<64x256xbf16>
    %z = stablehlo.constant dense<0.0> : tensor<64x256xbf16>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.multiply %s, %0 : tensor<64x256xbf16>
    %2 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<256xbf16>) -> tensor<64x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<64x256xbf16>
    %4 = stablehlo.maximum %z, %3 : tensor<64x256xbf16>
    return %4 : tensor<64x256xbf16>
  }
}

// -----

/// A scale alone is an epilogue, by the same number for all elements.

// CHECK-LABEL: module @scale
module @scale {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.multiply %d, %s : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

/// One by other numbers is not.

// CHECK-LABEL: module @scales
module @scales {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %s: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.multiply %d, %s : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

/// A matrix may be added, on either side, and one that is made before it.

// CHECK-LABEL: module @matrix
module @matrix {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.add
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.add %m, %d : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

/// A column is not added, nor is a constant.

// CHECK-LABEL: module @column
module @column {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %v: tensor<64xf32>) -> (tensor<64x256xf32>) {
    %m = stablehlo.broadcast_in_dim %v, dims = [0] : (tensor<64xf32>) -> tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.add %d, %m : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @constant
module @constant {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.add %d, %one : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

/// A maximum is ReLU if the other operand is 0.

// CHECK-LABEL: module @relu
module @relu {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.maximum
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.maximum %d, %z : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @clamp
module @clamp {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.maximum %d, %one : tensor<64x256xf32>
    %1 = stablehlo.maximum %0, %m : tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  }
}

// -----

/// A reshape may lie between; another op ends the epilogue.

// CHECK-LABEL: module @views
module @views {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.add
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.tanh
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<16384xf32>) -> (tensor<16384xf32>) {
    %s = stablehlo.constant dense<2.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.multiply %d, %s : tensor<64x256xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x256xf32>) -> tensor<16384xf32>
    %2 = stablehlo.add %1, %m : tensor<16384xf32>
    %3 = stablehlo.tanh %2 : tensor<16384xf32>
    return %3 : tensor<16384xf32>
  }
}

// -----

/// What something else reads too is a result: nothing follows it.

// CHECK-LABEL: module @read
module @read {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
    %s = stablehlo.constant dense<2.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.multiply %d, %s : tensor<64x256xf32>
    %1 = stablehlo.add %d, %m : tensor<64x256xf32>
    %2 = stablehlo.add %0, %m : tensor<64x256xf32>
    return %1, %2 : tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @read_scale
module @read_scale {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.add
  // CHECK: stablehlo.tanh
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
    %s = stablehlo.constant dense<2.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.multiply %d, %s : tensor<64x256xf32>
    %1 = stablehlo.add %0, %m : tensor<64x256xf32>
    %2 = stablehlo.tanh %0 : tensor<64x256xf32>
    return %1, %2 : tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

/// A product before a loop is done once, though the loop adds to it.

// CHECK-LABEL: module @invariant
module @invariant {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: stablehlo.while
  // CHECK: stablehlo.add %[[D]]
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64x64xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %a = stablehlo.add %d, %v : tensor<64x64xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// The library adds nothing to products of doubles.

// CHECK-LABEL: module @types
module @types {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf64>, %w: tensor<128x256xf64>, %m: tensor<64x256xf64>) -> (tensor<64x256xf64>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf64>, tensor<128x256xf64>) -> tensor<64x256xf64>
    %0 = stablehlo.add %d, %m : tensor<64x256xf64>
    return %0 : tensor<64x256xf64>
  }
}

// -----

// CHECK-LABEL: module @type_f16
module @type_f16 {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.add
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<64x128xf16>, %w: tensor<128x256xf16>, %m: tensor<64x256xf16>) -> (tensor<64x256xf16>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf16>, tensor<128x256xf16>) -> tensor<64x256xf16>
    %0 = stablehlo.add %d, %m : tensor<64x256xf16>
    return %0 : tensor<64x256xf16>
  }
}

// -----

// CHECK-LABEL: module @type_bf16
module @type_bf16 {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.add
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<64x128xbf16>, %w: tensor<128x256xbf16>, %m: tensor<64x256xbf16>) -> (tensor<64x256xbf16>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    %0 = stablehlo.add %d, %m : tensor<64x256xbf16>
    return %0 : tensor<64x256xbf16>
  }
}

// -----

/// An op that is no step of an epilogue and no reshape may not lie between.

// CHECK-LABEL: module @between
module @between {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.tanh %d : tensor<64x256xf32>
    %1 = stablehlo.add %0, %m : tensor<64x256xf32>
    return %1 : tensor<64x256xf32>
  }
}

// -----

/// The matrix that is added may be the result of another op.

// CHECK-LABEL: module @computed_matrix
module @computed_matrix {
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg2
  // CHECK: "mhlo.fusion"({{.*}}%[[T]]{{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.add
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %y: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %t = stablehlo.tanh %y : tensor<64x256xf32>
    %0 = stablehlo.add %d, %t : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}
