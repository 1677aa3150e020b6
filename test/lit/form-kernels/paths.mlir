// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Kernels that read one value are joined if no path leads from one to the other, however long it is, and
/// whatever has been joined before.

// CHECK-LABEL: module @graph0
// CHECK: stablehlo.constant
// CHECK: stablehlo.reduce
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.dot
// CHECK: stablehlo.add
// CHECK: return
module @graph0 {
  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.dot %x, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.add %2, %x : tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph1
// CHECK: stablehlo.log
// CHECK: stablehlo.dot
// CHECK: mhlo.fusion
// CHECK: stablehlo.log
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: stablehlo.dot
// CHECK: return
module @graph1 {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.log %y : tensor<64x64xf32>
    %1 = stablehlo.log %y : tensor<64x64xf32>
    %2 = stablehlo.dot %x, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.dot %y, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.add %1, %2 : tensor<64x64xf32>
    return %4 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph2
// CHECK: stablehlo.add
// CHECK: stablehlo.dot
// CHECK: stablehlo.reduce
// CHECK: mhlo.fusion
// CHECK: stablehlo.log
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: return
module @graph2 {
  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %x, %x : tensor<64x64xf32>
    %1 = stablehlo.log %x : tensor<64x64xf32>
    %2 = stablehlo.dot %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.add %4, %x : tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph3
// CHECK: stablehlo.reduce
// CHECK: stablehlo.reduce
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: stablehlo.dot
// CHECK: stablehlo.dot
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.add
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: return
module @graph3 {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.dot %3, %y : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.add %3, %1 : tensor<64x64xf32>
    %6 = stablehlo.dot %x, %4 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %7 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %11 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %13 = stablehlo.reduce(%10 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %15 = stablehlo.reduce(%14 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %17 = stablehlo.add %1, %16 : tensor<64x64xf32>
    return %5 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph4
// CHECK: stablehlo.dot
// CHECK: mhlo.fusion
// CHECK: stablehlo.log
// CHECK: stablehlo.add
// CHECK: stablehlo.add
// CHECK: stablehlo.log
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: stablehlo.dot
// CHECK: stablehlo.add
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.reduce
// CHECK: stablehlo.log
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: return
module @graph4 {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.log %y : tensor<64x64xf32>
    %1 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.add %x, %y : tensor<64x64xf32>
    %3 = stablehlo.dot %2, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.add %0, %1 : tensor<64x64xf32>
    %5 = stablehlo.add %1, %3 : tensor<64x64xf32>
    %6 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %8 = stablehlo.log %4 : tensor<64x64xf32>
    %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %11 = stablehlo.reduce(%10 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %13 = stablehlo.add %12, %8 : tensor<64x64xf32>
    return %5 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph5
// CHECK: stablehlo.dot
// CHECK: stablehlo.constant
// CHECK: stablehlo.reduce
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.reduce
// CHECK: stablehlo.reduce
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.add
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: return
module @graph5 {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %9 = stablehlo.add %y, %x : tensor<64x64xf32>
    %10 = stablehlo.add %9, %8 : tensor<64x64xf32>
    return %4 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph6
// CHECK: mhlo.fusion
// CHECK: stablehlo.reduce
// CHECK: stablehlo.reduce
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.dot
// CHECK: return
module @graph6 {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.dot %3, %y : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.add %x, %x : tensor<64x64xf32>
    %6 = stablehlo.add %x, %4 : tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @graph7
// CHECK: stablehlo.dot
// CHECK: stablehlo.constant
// CHECK: stablehlo.reduce
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.reduce
// CHECK: mhlo.return %{{[a-z0-9]+}} :
// CHECK: mhlo.fusion
// CHECK: stablehlo.add
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.add
// CHECK: mhlo.return %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: return
module @graph7 {
  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.add %x, %0 : tensor<64x64xf32>
    %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %8 = stablehlo.add %0, %7 : tensor<64x64xf32>
    return %8 : tensor<64x64xf32>
  }
}
