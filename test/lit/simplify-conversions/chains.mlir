// RUN: hespas-opt %s --simplify-conversions --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify-conversions --simplify-conversions --split-input-file | filecheck %s

/// What is rounded to bf16 and read in f32 again is read unrounded (XLA's SimplifyFPConversions).

// CHECK-LABEL: module @pair
module @pair {
  // CHECK: %[[C:.*]] = stablehlo.cosine %arg0
  // CHECK-NEXT: stablehlo.tanh %[[C]]
  // CHECK-NOT: stablehlo.convert
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.cosine %x : tensor<64xf32>
    %1 = stablehlo.convert %0 : (tensor<64xf32>) -> tensor<64xbf16>
    %2 = stablehlo.convert %1 : (tensor<64xbf16>) -> tensor<64xf32>
    %3 = stablehlo.tanh %2 : tensor<64xf32>
    return %3 : tensor<64xf32>
  }
}

// -----

/// The rounded value stays for others that read it.

// CHECK-LABEL: module @read_rounded
module @read_rounded {
  // CHECK: %[[R:.*]] = stablehlo.convert %arg0 : (tensor<64xf32>) -> tensor<64xbf16>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %arg0
  // CHECK-NEXT: return %[[R]], %[[T]]
  func.func @main(%x: tensor<64xf32>) -> (tensor<64xbf16>, tensor<64xf32>) {
    %0 = stablehlo.convert %x : (tensor<64xf32>) -> tensor<64xbf16>
    %1 = stablehlo.convert %0 : (tensor<64xbf16>) -> tensor<64xf32>
    %2 = stablehlo.tanh %1 : tensor<64xf32>
    return %0, %2 : tensor<64xbf16>, tensor<64xf32>
  }
}

// -----

/// Longer chains between other types are one conversion.

// CHECK-LABEL: module @chain
module @chain {
  // CHECK: %[[C:.*]] = stablehlo.convert %arg0 : (tensor<64xf32>) -> tensor<64xf16>
  // CHECK-NEXT: return %[[C]]
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf16> {
    %0 = stablehlo.convert %x : (tensor<64xf32>) -> tensor<64xbf16>
    %1 = stablehlo.convert %0 : (tensor<64xbf16>) -> tensor<64xf32>
    %2 = stablehlo.convert %1 : (tensor<64xf32>) -> tensor<64xf16>
    return %2 : tensor<64xf16>
  }
}

// -----

/// Conversions to and from integers stay, because they change numbers on purpose.

// CHECK-LABEL: module @integers
module @integers {
  // CHECK-COUNT-2: stablehlo.convert
  // CHECK: return
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.convert %x : (tensor<64xf32>) -> tensor<64xi32>
    %1 = stablehlo.convert %0 : (tensor<64xi32>) -> tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}
