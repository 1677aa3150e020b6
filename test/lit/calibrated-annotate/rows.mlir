// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s

/// A softmax that keeps its rows on the chip has the time of its class, also with dimensions of size 1, and if it is
/// reduced in merged dimensions;

// CHECK-LABEL: func.func @main
// CHECK: }){{.*}}kernel_class = "stream.softmax", latency_ns = [[T:[0-9.]+]] : f64
// CHECK: }){{.*}}kernel_class = "stream.softmax", latency_ns = [[T]] : f64
// CHECK: }){{.*}}kernel_class = "stream.softmax", latency_ns = [[T]] : f64
/// what reduces other dimensions is a reduction.
// CHECK: }){{.*}}kernel_class = "stream.reduce", latency_ns = {{[0-9.]+}} : f64
func.func @main(%x: tensor<4x64x2048xf32>, %y: tensor<1x4x64x2048xf32>) -> (tensor<4x64x2048xf32>, tensor<1x4x64x2048xf32>, tensor<4x64x2048xf32>, tensor<4x64x2048xf32>) {
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<4x64x2048xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.exponential %a : tensor<4x64x2048xf32>
    %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2048xf32>, tensor<f32>) -> tensor<4x64xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x2048xf32>
    %r = stablehlo.divide %e, %b : tensor<4x64x2048xf32>
    mhlo.return %r : tensor<4x64x2048xf32>
  }) {hespas.kernel = {kind = "reduction"}} : (tensor<4x64x2048xf32>) -> tensor<4x64x2048xf32>
  %1 = "mhlo.fusion"(%y) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<1x4x64x2048xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.exponential %a : tensor<1x4x64x2048xf32>
    %v = stablehlo.reshape %e : (tensor<1x4x64x2048xf32>) -> tensor<4x64x2048xf32>
    %s = stablehlo.reduce(%v init: %z) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2048xf32>, tensor<f32>) -> tensor<4x64xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [1, 2] : (tensor<4x64xf32>) -> tensor<1x4x64x2048xf32>
    %r = stablehlo.divide %e, %b : tensor<1x4x64x2048xf32>
    mhlo.return %r : tensor<1x4x64x2048xf32>
  }) {hespas.kernel = {kind = "reduction"}} : (tensor<1x4x64x2048xf32>) -> tensor<1x4x64x2048xf32>
  %2 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<4x64x2048xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.exponential %a : tensor<4x64x2048xf32>
    %v = stablehlo.reshape %e : (tensor<4x64x2048xf32>) -> tensor<256x2048xf32>
    %s = stablehlo.reduce(%v init: %z) applies stablehlo.add across dimensions = [1] : (tensor<256x2048xf32>, tensor<f32>) -> tensor<256xf32>
    %u = stablehlo.reshape %s : (tensor<256xf32>) -> tensor<4x64xf32>
    %b = stablehlo.broadcast_in_dim %u, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x2048xf32>
    %r = stablehlo.divide %e, %b : tensor<4x64x2048xf32>
    mhlo.return %r : tensor<4x64x2048xf32>
  }) {hespas.kernel = {kind = "reduction"}} : (tensor<4x64x2048xf32>) -> tensor<4x64x2048xf32>
  %3 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<4x64x2048xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.exponential %a : tensor<4x64x2048xf32>
    %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x64x2048xf32>, tensor<f32>) -> tensor<4x2048xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<4x2048xf32>) -> tensor<4x64x2048xf32>
    %r = stablehlo.divide %e, %b : tensor<4x64x2048xf32>
    mhlo.return %r : tensor<4x64x2048xf32>
  }) {hespas.kernel = {kind = "reduction"}} : (tensor<4x64x2048xf32>) -> tensor<4x64x2048xf32>
  return %0, %1, %2, %3 : tensor<4x64x2048xf32>, tensor<1x4x64x2048xf32>, tensor<4x64x2048xf32>, tensor<4x64x2048xf32>
}
