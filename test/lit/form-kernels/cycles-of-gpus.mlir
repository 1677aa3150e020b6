// RUN: hespas-opt %s --form-kernels | filecheck %s --check-prefix=A100
// RUN: hespas-opt %s --form-kernels=target=V100_16GB | filecheck %s --check-prefix=V100
// RUN: hespas-opt %s --form-kernels=target=A40_48GB | filecheck %s --check-prefix=A40
// RUN: hespas-opt %s --form-kernels=target=L40S_48GB | filecheck %s --check-prefix=A40

/// XLA has a table for each GPU. Each element is read by 32 windows: a cosine is computed again for each of
/// them on an A100, whose table does not list it, and once on others. The table of an A40 is also that of GPUs
/// for which there is none, such as an L40S. It does not list powers of integers
/// either, while all list those of f32.

// A100: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
// A100: stablehlo.cosine
// A100: %[[B:.*]] = "mhlo.fusion"(%arg1) {{.*}} kLoop
// A100: stablehlo.power
// A100: "mhlo.fusion"(%arg2)
// A100: stablehlo.power
// A100-NEXT: mhlo.return
// V100: %[[A:.*]] = stablehlo.cosine %arg0
// V100: "mhlo.fusion"(%arg1)
// V100: stablehlo.power
// V100-NEXT: mhlo.return
// V100: "mhlo.fusion"(%arg2)
// V100: stablehlo.power
// V100-NEXT: mhlo.return
// A40: %[[A:.*]] = stablehlo.cosine %arg0
// A40: %[[B:.*]] = "mhlo.fusion"(%arg1) {{.*}} kLoop
// A40: stablehlo.power
// A40: "mhlo.fusion"(%arg2)
// A40: stablehlo.power
// A40-NEXT: mhlo.return
func.func @main(%x: tensor<1024x1055xf32>, %y: tensor<1024x1055xi32>, %z: tensor<1024x1055xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xi32>, tensor<1024x1024xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.cosine %x : tensor<1024x1055xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
  %2 = stablehlo.power %y, %y : tensor<1024x1055xi32>
  %3 = "stablehlo.reduce_window"(%2, %one) <{window_dimensions = array<i64: 1, 32>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %s = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<1024x1055xi32>, tensor<i32>) -> tensor<1024x1024xi32>
  %4 = stablehlo.power %z, %z : tensor<1024x1055xf32>
  %5 = "stablehlo.reduce_window"(%4, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
  return %1, %3, %5 : tensor<1024x1024xf32>, tensor<1024x1024xi32>, tensor<1024x1024xf32>
}
