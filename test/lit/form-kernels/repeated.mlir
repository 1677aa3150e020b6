// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// A value that is several operands of an op is read once, as the parameter of a fusion; a number is no read.

// CHECK-LABEL: module @square
module @square {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK: stablehlo.multiply
  // CHECK: %[[S:.*]] = stablehlo.add %arg1, %arg1
  // CHECK: return
  func.func @main(%x: tensor<4096x1024xf32>, %y: tensor<f32>) -> (tensor<4096x1024xf32>, tensor<f32>) {
    %0 = stablehlo.multiply %x, %x : tensor<4096x1024xf32>
    %1 = stablehlo.add %y, %y : tensor<f32>
    return %0, %1 : tensor<4096x1024xf32>, tensor<f32>
  }
}

// -----

/// XLA's model computes a value for each operand of an op that is not fused yet, and so none that takes long;

// CHECK-LABEL: module @expensive
module @expensive {
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg0
  // CHECK: "mhlo.fusion"(%[[T]])
  func.func @main(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
    %0 = stablehlo.tanh %x : tensor<4096x1024xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<4096x1024xf32>
    return %1 : tensor<4096x1024xf32>
  }
}

// -----

/// a fusion computes it once.

// CHECK-LABEL: module @fused
module @fused {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.tanh
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<4096x1024xf32>, %y: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
    %0 = stablehlo.tanh %x : tensor<4096x1024xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<4096x1024xf32>
    %2 = stablehlo.add %1, %y : tensor<4096x1024xf32>
    return %2 : tensor<4096x1024xf32>
  }
}
