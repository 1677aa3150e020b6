// RUN: hespas-opt %s --memory-annotate=model-fusion=true | filecheck %s --check-prefix=TRUE
// RUN: hespas-opt %s --memory-annotate=model-fusion=false | filecheck %s --check-prefix=FALSE
// RUN: hespas-opt %s --memory-annotate=model-fusion=auto | filecheck %s --check-prefix=FALSE

/// A module with a fusion is fused: auto takes its kernels as they are, true models the rest.

// TRUE: live_bytes = 16388 : i64
// FALSE: live_bytes = 24580 : i64
func.func @main(%x: tensor<2048xf32>) -> (tensor<f32>, tensor<2048xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<2048xf32>):
    %b = stablehlo.tanh %a : tensor<2048xf32>
    %c = stablehlo.negate %b : tensor<2048xf32>
    mhlo.return %c : tensor<2048xf32>
  }) : (tensor<2048xf32>) -> tensor<2048xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<2048xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2048xf32>, tensor<f32>) -> tensor<f32>
  return %2, %0 : tensor<f32>, tensor<2048xf32>
}
