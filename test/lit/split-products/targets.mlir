// RUN: hespas-opt %s --split-products=target=A100_SXM_40GB | filecheck %s --check-prefix=AMPERE
// RUN: hespas-opt %s --split-products=target=H100_80GB | filecheck %s --check-prefix=HOPPER
// RUN: hespas-opt %s --split-products | filecheck %s --check-prefix=AMPERE

/// Reductions are dearer on Ampere, so that there are fewer parts. XLA's SplitkRewriter divides it so, too.

// AMPERE: stablehlo.dot_general {{.*}} -> tensor<32x128x128xf32>
// HOPPER: stablehlo.dot_general {{.*}} -> tensor<64x128x128xf32>
func.func @main(%x: tensor<128x8192xbf16>, %w: tensor<8192x128xbf16>) -> tensor<128x128xbf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x8192xbf16>, tensor<8192x128xbf16>) -> tensor<128x128xbf16>
  return %0 : tensor<128x128xbf16>
}
