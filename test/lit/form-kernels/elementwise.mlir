// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// GELU, tanh form: one loop, constants inside.

// CHECK-LABEL: module @gelu
module @gelu {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK-COUNT-4: stablehlo.constant
  // CHECK: mhlo.return
  // CHECK-NEXT: {hespas.kernel = {kind = "loop"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%x: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %half = stablehlo.constant dense<0.5> : tensor<64x1024xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x1024xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x1024xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x1024xf32>
    %0 = stablehlo.multiply %x, %x : tensor<64x1024xf32>
    %1 = stablehlo.multiply %0, %x : tensor<64x1024xf32>
    %2 = stablehlo.multiply %1, %c : tensor<64x1024xf32>
    %3 = stablehlo.add %x, %2 : tensor<64x1024xf32>
    %4 = stablehlo.multiply %3, %s : tensor<64x1024xf32>
    %5 = stablehlo.tanh %4 : tensor<64x1024xf32>
    %6 = stablehlo.add %5, %one : tensor<64x1024xf32>
    %7 = stablehlo.multiply %x, %half : tensor<64x1024xf32>
    %8 = stablehlo.multiply %7, %6 : tensor<64x1024xf32>
    return %8 : tensor<64x1024xf32>
  }
}

// -----

/// What is cheap is computed in each user; what the function returns is written.

// CHECK-LABEL: module @repeated
module @repeated {
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.reduce
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.slice
  // CHECK-NOT: stablehlo.negate
  func.func @main(%x: tensor<1024x1024xf32>) -> (tensor<1024xf32>, tensor<8x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.negate %x : tensor<1024x1024xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = stablehlo.slice %0 [0:8, 0:1024] : (tensor<1024x1024xf32>) -> tensor<8x1024xf32>
    return %1, %2 : tensor<1024xf32>, tensor<8x1024xf32>
  }
}

// -----

/// The update of a parameter by Adam: all that reads the gradient in one kernel of three results.

// CHECK-LABEL: module @adam
module @adam {
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"
  // CHECK-NOT: mhlo.fusion
  // CHECK: return %[[F]]#
  func.func @main(%p: tensor<512x512xf32>, %m: tensor<512x512xf32>, %v: tensor<512x512xf32>, %g: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) {
    %b1 = stablehlo.constant dense<0.9> : tensor<512x512xf32>
    %b1_ = stablehlo.constant dense<0.1> : tensor<512x512xf32>
    %b2 = stablehlo.constant dense<0.999> : tensor<512x512xf32>
    %b2_ = stablehlo.constant dense<0.001> : tensor<512x512xf32>
    %eps = stablehlo.constant dense<1.0e-8> : tensor<512x512xf32>
    %lr = stablehlo.constant dense<1.0e-4> : tensor<512x512xf32>
    %0 = stablehlo.multiply %m, %b1 : tensor<512x512xf32>
    %1 = stablehlo.multiply %g, %b1_ : tensor<512x512xf32>
    %2 = stablehlo.add %0, %1 : tensor<512x512xf32>
    %3 = stablehlo.multiply %g, %g : tensor<512x512xf32>
    %4 = stablehlo.multiply %3, %b2_ : tensor<512x512xf32>
    %5 = stablehlo.multiply %v, %b2 : tensor<512x512xf32>
    %6 = stablehlo.add %4, %5 : tensor<512x512xf32>
    %7 = stablehlo.sqrt %6 : tensor<512x512xf32>
    %8 = stablehlo.add %7, %eps : tensor<512x512xf32>
    %9 = stablehlo.divide %2, %8 : tensor<512x512xf32>
    %10 = stablehlo.multiply %9, %lr : tensor<512x512xf32>
    %11 = stablehlo.subtract %p, %10 : tensor<512x512xf32>
    return %11, %2, %6 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>
  }
}
