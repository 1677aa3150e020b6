// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// A transpose by tiles in shared memory is computed by what reads it,

// CHECK-LABEL: module @tiled
module @tiled {
  // CHECK: "mhlo.fusion"(%arg0, {{.*}}kInput
  // CHECK: stablehlo.transpose
  // CHECK: {hespas.kernel = {kind = "transpose"}}
  func.func @main(%x: tensor<16x1024x1024xf32>, %a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<1024x1024x16xf32>, tensor<1024x1024x16xf32>) {
    %0 = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<16x1024x1024xf32>) -> tensor<1024x1024x16xf32>
    %1 = stablehlo.broadcast_in_dim %a, dims = [2] : (tensor<16xf32>) -> tensor<1024x1024x16xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<1024x1024x16xf32>
    %3 = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<16xf32>) -> tensor<1024x1024x16xf32>
    %4 = stablehlo.add %0, %3 : tensor<1024x1024x16xf32>
    return %2, %4 : tensor<1024x1024x16xf32>, tensor<1024x1024x16xf32>
  }
}

// -----

/// one of too few columns for tiles, whose loop reads distant places, by itself,

// CHECK-LABEL: module @narrow
module @narrow {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK-NEXT: "mhlo.fusion"({{.*}}%[[T]]
  func.func @main(%x: tensor<4x1024x1024xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<1024x1024x4xf32>, tensor<1024x1024x4xf32>) {
    %0 = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<4x1024x1024xf32>) -> tensor<1024x1024x4xf32>
    %1 = stablehlo.broadcast_in_dim %a, dims = [2] : (tensor<4xf32>) -> tensor<1024x1024x4xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<1024x1024x4xf32>
    %3 = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<4xf32>) -> tensor<1024x1024x4xf32>
    %4 = stablehlo.add %0, %3 : tensor<1024x1024x4xf32>
    return %2, %4 : tensor<1024x1024x4xf32>, tensor<1024x1024x4xf32>
  }
}

// -----

/// of eight, if the tiles have enough elements,

// CHECK-LABEL: module @eight
module @eight {
  // CHECK: "mhlo.fusion"(%arg0, {{.*}}kInput
  func.func @main(%x: tensor<8x1024x1024xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<1024x1024x8xf32>, tensor<1024x1024x8xf32>) {
    %0 = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<8x1024x1024xf32>) -> tensor<1024x1024x8xf32>
    %1 = stablehlo.broadcast_in_dim %a, dims = [2] : (tensor<8xf32>) -> tensor<1024x1024x8xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<1024x1024x8xf32>
    %3 = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<8xf32>) -> tensor<1024x1024x8xf32>
    %4 = stablehlo.add %0, %3 : tensor<1024x1024x8xf32>
    return %2, %4 : tensor<1024x1024x8xf32>, tensor<1024x1024x8xf32>
  }
}

// -----

/// and the innermost dimensions of which stay together is a loop like others.

// CHECK-LABEL: module @kept
module @kept {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.pad
  func.func @main(%x: tensor<16x1024x64xf32>) -> tensor<1025x16x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<16x1024x64xf32>) -> tensor<1024x16x64xf32>
    %1 = stablehlo.pad %0, %zero, low = [1, 0, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<1024x16x64xf32>, tensor<f32>) -> tensor<1025x16x64xf32>
    return %1 : tensor<1025x16x64xf32>
  }
}

// -----

/// The loop of such a transpose is not that of a reduction that reads the same value.

// CHECK-LABEL: module @beside_reduction
module @beside_reduction {
  // CHECK-DAG: {hespas.kernel = {kind = "transpose"}} : (tensor<16x1024x64xf32>) -> tensor<1024x16x64xf32>
  // CHECK-DAG: {hespas.kernel = {kind = "reduction"}} : (tensor<16x1024x64xf32>) -> tensor<16x1024xf32>
  func.func @main(%x: tensor<16x1024x64xf32>) -> (tensor<1024x16x64xf32>, tensor<16x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.exponential %x : tensor<16x1024x64xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<16x1024x64xf32>) -> tensor<1024x16x64xf32>
    %2 = stablehlo.abs %x : tensor<16x1024x64xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<16x1024x64xf32>, tensor<f32>) -> tensor<16x1024xf32>
    return %1, %3 : tensor<1024x16x64xf32>, tensor<16x1024xf32>
  }
}

// -----

/// A kernel that transposes is no result of what reads it.

// CHECK-LABEL: module @results
module @results {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK: stablehlo.transpose
  // CHECK: }) {hespas.kernel = {kind = "transpose"}} : (tensor<4x1024x1024xbf16>) -> tensor<1024x1024x4xf32>
  // CHECK: (tensor<1024x1024x4xf32>) -> (tensor<{{.*}}>, tensor<{{.*}}>)
  func.func @main(%x: tensor<4x1024x1024xbf16>) -> (tensor<1024x1024x4xf32>, tensor<1024x4xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.convert %x : (tensor<4x1024x1024xbf16>) -> tensor<4x1024x1024xf32>
    %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<4x1024x1024xf32>) -> tensor<1024x1024x4xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<1024x1024x4xf32>
    %3 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024x4xf32>, tensor<f32>) -> tensor<1024x4xf32>
    return %2, %3 : tensor<1024x1024x4xf32>, tensor<1024x4xf32>
  }
}

// -----

/// A transpose that changes only the order in memory has no tiles.

// CHECK-LABEL: module @layout
module @layout {
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.negate
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.negate %x : tensor<64x128xf32>
    %1 = stablehlo.transpose %0, dims = [0, 1] {result_layout = dense<[0, 1]> : tensor<2xindex>} : (tensor<64x128xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.tanh %1 : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}
