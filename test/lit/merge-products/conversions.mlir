// RUN: hespas-opt %s --merge-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --merge-products=conversions=no-f8E4M3 --split-input-file | filecheck %s --check-prefix=AMPERE
// RUN: hespas-opt %s --merge-products=conversions=none --split-input-file | filecheck %s --check-prefix=VOLTA
// RUN: not hespas-opt %s --merge-products=conversions=some --split-input-file 2>&1 | filecheck %s --check-prefix=NAME

// NAME: error: merge-products: no conversions are called 'some'

/// A product that widens an operand while it reads it stays by itself, as it could not after a
/// concatenation. Which types are widened is an option.

// CHECK-LABEL: module @bytes
// AMPERE-LABEL: module @bytes
// VOLTA-LABEL: module @bytes
module @bytes {
  // CHECK-NOT: stablehlo.concatenate
  // AMPERE-NOT: stablehlo.concatenate
  // VOLTA: stablehlo.concatenate
  func.func @main(%x: tensor<16x16xbf16>, %a: tensor<16x16xi8>, %b: tensor<16x16xi8>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>) {
    %0 = stablehlo.convert %a : (tensor<16x16xi8>) -> tensor<16x16xbf16>
    %1 = stablehlo.convert %b : (tensor<16x16xi8>) -> tensor<16x16xbf16>
    %2 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %3 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    return %2, %3 : tensor<16x16xbf16>, tensor<16x16xbf16>
  }
}

// -----

// CHECK-LABEL: module @floats
// AMPERE-LABEL: module @floats
// VOLTA-LABEL: module @floats
module @floats {
  // CHECK-NOT: stablehlo.concatenate
  // AMPERE: stablehlo.concatenate
  // VOLTA: stablehlo.concatenate
  func.func @main(%x: tensor<16x16xbf16>, %a: tensor<16x16xf8E4M3FN>, %b: tensor<16x16xf8E4M3FN>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>) {
    %0 = stablehlo.convert %a : (tensor<16x16xf8E4M3FN>) -> tensor<16x16xbf16>
    %1 = stablehlo.convert %b : (tensor<16x16xf8E4M3FN>) -> tensor<16x16xbf16>
    %2 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %3 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    return %2, %3 : tensor<16x16xbf16>, tensor<16x16xbf16>
  }
}
