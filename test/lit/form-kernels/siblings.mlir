// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Kernels that read one value share a loop and have a result each; they do not if one needs the other
/// by way of a third, if the loops differ, or if they read different parts.

// CHECK-LABEL: module @loops
module @loops {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: mhlo.return %{{.*}}, %{{.*}} :
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.tanh %x : tensor<1048576xf32>
    %1 = stablehlo.cosine %x : tensor<1048576xf32>
    return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

// CHECK-LABEL: module @path
module @path {
  // CHECK: stablehlo.tanh %arg0
  // CHECK: stablehlo.custom_call
  // CHECK: stablehlo.add
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.tanh %x : tensor<1048576xf32>
    %1 = stablehlo.custom_call @kernel(%0) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %2 = stablehlo.add %1, %x : tensor<1048576xf32>
    return %0, %2 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

// CHECK-LABEL: module @parts
module @parts {
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.slice
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<524288xf32>, tensor<524288xf32>) {
    %0 = stablehlo.slice %x [0:524288] : (tensor<1048576xf32>) -> tensor<524288xf32>
    %1 = stablehlo.slice %x [524288:1048576] : (tensor<1048576xf32>) -> tensor<524288xf32>
    return %0, %1 : tensor<524288xf32>, tensor<524288xf32>
  }
}

// -----

// CHECK-LABEL: module @heroes
module @heroes {
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.transpose
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<512x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    return %0, %1 : tensor<1024xf32>, tensor<512x1024xf32>
  }
}

// -----

/// A producer that something else reads stays a result of the kernel of its reader.

// CHECK-LABEL: module @producer
module @producer {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.custom_call @kernel(%[[F]]#
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<1024x512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.tanh %x : tensor<1024x512xf32>
    %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.custom_call @kernel(%t) : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
    return %0, %1 : tensor<1024xf32>, tensor<1024x512xf32>
  }
}
