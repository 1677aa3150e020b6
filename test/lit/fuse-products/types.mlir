// RUN: hespas-opt %s --fuse-products=own=false --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products=own=false,conversions=no-f8E4M3 --split-input-file | filecheck %s --check-prefix=AMPERE
// RUN: hespas-opt %s --fuse-products=own=false,conversions=none --split-input-file | filecheck %s --check-prefix=VOLTA
// RUN: hespas-opt %s --fuse-products=own=false --split-input-file --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=PLACE
// RUN: not hespas-opt %s --fuse-products=own=false,conversions=some --split-input-file 2>&1 | filecheck %s --check-prefix=NAME

// NAME: error: fuse-products: no conversions are called 'some'

/// The weights are read in four bits: the conversion, the scales and what follows belong to the
/// kernel of the product (xla/backends/gpu/transforms/gemm_fusion.cc).

// CHECK-LABEL: module @four_bits
module @four_bits {
  // CHECK: "mhlo.fusion"(%arg1, %arg2, %arg0, %arg3) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NOT: mhlo.fusion
  // AMPERE-LABEL: module @four_bits
  // AMPERE: mhlo.fusion{{.*}} kCustom
  // VOLTA-LABEL: module @four_bits
  // VOLTA-NOT: mhlo.fusion
  // VOLTA: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xi4>, %s: tensor<256xbf16>, %b: tensor<16x256xbf16>) -> tensor<16x256xbf16> {
    %0 = stablehlo.convert %w : (tensor<1024x256xi4>) -> tensor<1024x256xbf16>
    %1 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<256xbf16>) -> tensor<1024x256xbf16>
    %2 = stablehlo.multiply %0, %1 : tensor<1024x256xbf16>
    %3 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    %4 = stablehlo.add %3, %b : tensor<16x256xbf16>
    %5 = stablehlo.tanh %4 : tensor<16x256xbf16>
    return %5 : tensor<16x256xbf16>
  }
}

// -----

/// GPUs before Ada do not read f8E4M3.

// CHECK-LABEL: module @eight_bits
module @eight_bits {
  // CHECK: mhlo.fusion{{.*}} kCustom
  // AMPERE-LABEL: module @eight_bits
  // AMPERE-NOT: kCustom
  // AMPERE: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xf8E4M3FN>) -> tensor<16x256xbf16> {
    %0 = stablehlo.convert %w : (tensor<1024x256xf8E4M3FN>) -> tensor<1024x256xbf16>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %1 : tensor<16x256xbf16>
  }
}

// -----

/// No GPU reads integers without a sign.

// CHECK-LABEL: module @no_sign
module @no_sign {
  // CHECK-NOT: kCustom
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xui8>) -> tensor<16x256xbf16> {
    %0 = stablehlo.convert %w : (tensor<1024x256xui8>) -> tensor<1024x256xbf16>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %1 : tensor<16x256xbf16>
  }
}

// -----

/// A conversion to a narrower type reads more than it makes: it stays outside if others read what it reads.

// CHECK-LABEL: module @narrowed
module @narrowed {
  // CHECK-NOT: kCustom
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xf32>) -> (tensor<16x256xbf16>, tensor<1024x256xf32>) {
    %0 = stablehlo.convert %w : (tensor<1024x256xf32>) -> tensor<1024x256xbf16>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %1, %w : tensor<16x256xbf16>, tensor<1024x256xf32>
  }
}

// -----

// CHECK-LABEL: module @narrowed_argument
module @narrowed_argument {
  // CHECK: "mhlo.fusion"(%arg1, %arg0)
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.dot_general
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xf32>) -> tensor<16x256xbf16> {
    %0 = stablehlo.convert %w : (tensor<1024x256xf32>) -> tensor<1024x256xbf16>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x1024xbf16>, tensor<1024x256xbf16>) -> tensor<16x256xbf16>
    return %1 : tensor<16x256xbf16>
  }
}

// -----

/// The kernel is at the place of the product, whose layer it belongs to, and not at that of the
/// conversion, which another layer may have made.

// CHECK-LABEL: module @place
// PLACE-LABEL: module @place
module @place {
  // PLACE: }) {hespas.kernel = {kind = "gemm"}} {{.*}} loc("mlp/dot_general")
  func.func @main(%x: tensor<16x1024xbf16>, %w: tensor<1024x256xf32>) -> tensor<16x256xf32> {
    %0 = stablehlo.convert %x : (tensor<16x1024xbf16>) -> tensor<16x1024xf32> loc("norm/convert")
    %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<16x1024xf32>, tensor<1024x256xf32>) -> tensor<16x256xf32> loc("mlp/dot_general")
    return %1 : tensor<16x256xf32>
  }
}
