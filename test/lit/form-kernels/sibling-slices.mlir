// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// All kernels here are those of XLA (jaxlib 0.12, H100). Kernels that read parts of a value by slices are joined if the
/// parts overlap,

// CHECK-LABEL: module @overlapping
module @overlapping {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>) -> (tensor<512x768xf32>, tensor<512x768xf32>) {
    %0 = stablehlo.slice %x [0:512, 0:768] : (tensor<512x1024xf32>) -> tensor<512x768xf32>
    %1 = stablehlo.exponential %0 : tensor<512x768xf32>
    %2 = stablehlo.slice %x [0:512, 256:1024] : (tensor<512x1024xf32>) -> tensor<512x768xf32>
    %3 = stablehlo.tanh %2 : tensor<512x768xf32>
    return %1, %3 : tensor<512x768xf32>, tensor<512x768xf32>
  }
}

// -----

/// not if they have nothing in common in one dimension, on either side;

// CHECK-LABEL: module @disjoint
module @disjoint {
  // CHECK-COUNT-2: %{{[0-9]+}} = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
    %0 = stablehlo.slice %x [0:512, 0:512] : (tensor<512x1024xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.exponential %0 : tensor<512x512xf32>
    %2 = stablehlo.slice %x [0:512, 512:1024] : (tensor<512x1024xf32>) -> tensor<512x512xf32>
    %3 = stablehlo.tanh %2 : tensor<512x512xf32>
    return %1, %3 : tensor<512x512xf32>, tensor<512x512xf32>
  }
}

// -----

// CHECK-LABEL: module @touching
module @touching {
  // CHECK-COUNT-2: %{{[0-9]+}} = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>) -> (tensor<256x768xf32>, tensor<256x768xf32>) {
    %0 = stablehlo.slice %x [256:512, 0:768] : (tensor<512x1024xf32>) -> tensor<256x768xf32>
    %1 = stablehlo.exponential %0 : tensor<256x768xf32>
    %2 = stablehlo.slice %x [0:256, 256:1024] : (tensor<512x1024xf32>) -> tensor<256x768xf32>
    %3 = stablehlo.tanh %2 : tensor<256x768xf32>
    return %1, %3 : tensor<256x768xf32>, tensor<256x768xf32>
  }
}

// -----

/// of a kernel with several slices XLA does not know the part.

// CHECK-LABEL: module @several
module @several {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
    %0 = stablehlo.slice %x [0:512, 0:512] : (tensor<512x1024xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.slice %x [0:512, 256:768] : (tensor<512x1024xf32>) -> tensor<512x512xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<512x512xf32>
    %3 = stablehlo.exponential %2 : tensor<512x512xf32>
    %4 = stablehlo.slice %x [0:512, 512:1024] : (tensor<512x1024xf32>) -> tensor<512x512xf32>
    %5 = stablehlo.tanh %4 : tensor<512x512xf32>
    return %3, %5 : tensor<512x512xf32>, tensor<512x512xf32>
  }
}

// -----

/// Kernels that read the same vector are joined, those that read the same number are not.

// CHECK-LABEL: module @vector
module @vector {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>, %y: tensor<512x1024xf32>, %s: tensor<1024xf32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<1024xf32>) -> tensor<512x1024xf32>
    %0 = stablehlo.multiply %x, %b : tensor<512x1024xf32>
    %1 = stablehlo.exponential %0 : tensor<512x1024xf32>
    %2 = stablehlo.subtract %y, %b : tensor<512x1024xf32>
    %3 = stablehlo.tanh %2 : tensor<512x1024xf32>
    return %1, %3 : tensor<512x1024xf32>, tensor<512x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @number
module @number {
  // CHECK-COUNT-2: %{{[0-9]+}} = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>, %y: tensor<512x1024xf32>, %s: tensor<f32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<512x1024xf32>
    %0 = stablehlo.multiply %x, %b : tensor<512x1024xf32>
    %1 = stablehlo.exponential %0 : tensor<512x1024xf32>
    %2 = stablehlo.subtract %y, %b : tensor<512x1024xf32>
    %3 = stablehlo.tanh %2 : tensor<512x1024xf32>
    return %1, %3 : tensor<512x1024xf32>, tensor<512x1024xf32>
  }
}

// -----

/// A concatenation that is a single op is joined with its reader like a loop.

// CHECK-LABEL: module @concatenation
module @concatenation {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"
  func.func @main(%x: tensor<512x1024xf32>, %y: tensor<512x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<512x1024xf32>, tensor<512x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.exponential %0 : tensor<1024x1024xf32>
    return %0, %1 : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}
