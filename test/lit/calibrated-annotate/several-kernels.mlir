// RUN: hespas-opt %s '--calibrated-annotate=node=H100_80GB kernel-cost="one=5e9:64;two=5e9:64;three=5e9:64;four=5e9:64"' --disable-output 2>&1 | filecheck %s
// RUN: hespas-opt %s '--calibrated-annotate=node=H100_80GB kernel-cost="one=5e9:64;two=5e9:64;three=5e9:64;four=0:64"' --disable-output 2>&1 | filecheck %s --check-prefix=THREE

/// Three of the kernels whose operations are known by their number only are named, and the others counted. A kernel without
/// operations is none of them.

// CHECK: warning: the operations of four, one, three and 1 more are declared without the shapes of their products
// THREE: warning: the operations of one, three, two are declared without the shapes of their products
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @one(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @two(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.custom_call @three(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.custom_call @four(%2) : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
