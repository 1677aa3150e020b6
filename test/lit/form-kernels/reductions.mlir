// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Softmax along rows that a block can hold: one kernel, with what comes before and after.

// CHECK-LABEL: module @softmax
module @softmax {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg1, %arg0)
  // CHECK: stablehlo.select
  // CHECK: applies stablehlo.maximum
  // CHECK: applies stablehlo.add
  // CHECK: stablehlo.convert
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%x: tensor<64x1024xf32>, %mask: tensor<64x1024xi1>) -> tensor<64x1024xbf16> {
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %low = stablehlo.constant dense<-1.0e30> : tensor<64x1024xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.select %mask, %x, %low : tensor<64x1024xi1>, tensor<64x1024xf32>
    %0 = stablehlo.reduce(%m init: %ninf) applies stablehlo.maximum across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %m, %1 : tensor<64x1024xf32>
    %3 = stablehlo.exponential %2 : tensor<64x1024xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %6 = stablehlo.divide %3, %5 : tensor<64x1024xf32>
    %7 = stablehlo.convert %6 : (tensor<64x1024xf32>) -> tensor<64x1024xbf16>
    return %7 : tensor<64x1024xbf16>
  }
}

// -----

/// Along columns no block holds them: the maximum, the sum, the quotient. The exponentials are computed twice.

// CHECK-LABEL: module @columns
module @columns {
  // CHECK: %[[M:.*]] = stablehlo.reduce(%arg0
  // CHECK: %[[S:.*]] = "mhlo.fusion"(%[[M]], %arg0) <{fusion_kind = #mhlo<fusion_kind kInput>}>
  // CHECK: stablehlo.exponential
  // CHECK: applies stablehlo.add
  // CHECK: "mhlo.fusion"(%[[M]], %arg0, %[[S]]){{.*}}kLoop
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.divide
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<4096x8192xf32>) -> tensor<4096x8192xf32> {
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %ninf) applies stablehlo.maximum across dimensions = [0] : (tensor<4096x8192xf32>, tensor<f32>) -> tensor<8192xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8192xf32>) -> tensor<4096x8192xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<4096x8192xf32>
    %3 = stablehlo.exponential %2 : tensor<4096x8192xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096x8192xf32>, tensor<f32>) -> tensor<8192xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<8192xf32>) -> tensor<4096x8192xf32>
    %6 = stablehlo.divide %3, %5 : tensor<4096x8192xf32>
    return %6 : tensor<4096x8192xf32>
  }
}

// -----

/// Layer norm in one kernel, its scale too.

// CHECK-LABEL: module @layer_norm
module @layer_norm {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.rsqrt
  // CHECK: mhlo.return
  // CHECK-NEXT: {hespas.kernel = {kind = "reduction"}}
  // CHECK-NEXT: return
  func.func @main(%x: tensor<64x1024xf32>, %g: tensor<1024xf32>) -> tensor<64x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.constant dense<9.765625e-4> : tensor<64xf32>
    %eps = stablehlo.constant dense<1.0e-5> : tensor<64xf32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.multiply %0, %n : tensor<64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %3 = stablehlo.subtract %x, %2 : tensor<64x1024xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<64x1024xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %6 = stablehlo.multiply %5, %n : tensor<64xf32>
    %7 = stablehlo.add %6, %eps : tensor<64xf32>
    %8 = stablehlo.rsqrt %7 : tensor<64xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %10 = stablehlo.multiply %3, %9 : tensor<64x1024xf32>
    %11 = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<1024xf32>) -> tensor<64x1024xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<64x1024xf32>
    return %12 : tensor<64x1024xf32>
  }
}

// -----

/// Two reductions of one value are one kernel; what follows a reduction is another.

// CHECK-LABEL: module @siblings
module @siblings {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: applies stablehlo.add
  // CHECK: applies stablehlo.maximum
  // CHECK: stablehlo.divide %[[F]]#
  func.func @main(%x: tensor<512x512xf32>) -> tensor<512xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<512x512xf32>, tensor<f32>) -> tensor<512xf32>
    %1 = stablehlo.reduce(%x init: %ninf) applies stablehlo.maximum across dimensions = [1] : (tensor<512x512xf32>, tensor<f32>) -> tensor<512xf32>
    %2 = stablehlo.divide %0, %1 : tensor<512xf32>
    return %2 : tensor<512xf32>
  }
}

// -----

/// Exponentials that something else reads are a result: the softmax is two kernels.

// CHECK-LABEL: module @shared_exponentials
module @shared_exponentials {
  // CHECK: %[[S:.*]] = stablehlo.dot_general
  // CHECK: %[[E:.*]] = "mhlo.fusion"(%[[S]])
  // CHECK: stablehlo.exponential
  // CHECK: %[[Q:.*]] = "mhlo.fusion"(%[[E]])
  // CHECK: stablehlo.divide
  // CHECK: %[[D:.*]] = stablehlo.dot_general %[[E]], %[[E]]
  // CHECK-NEXT: return %[[Q]], %[[D]]
  func.func @main(%q: tensor<512x64xf32>, %k: tensor<64x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.dot_general %q, %k, contracting_dims = [1] x [0] : (tensor<512x64xf32>, tensor<64x512xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.reduce(%0 init: %ninf) applies stablehlo.maximum across dimensions = [1] : (tensor<512x512xf32>, tensor<f32>) -> tensor<512xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<512xf32>) -> tensor<512x512xf32>
    %3 = stablehlo.subtract %0, %2 : tensor<512x512xf32>
    %4 = stablehlo.exponential %3 : tensor<512x512xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<512x512xf32>, tensor<f32>) -> tensor<512xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<512xf32>) -> tensor<512x512xf32>
    %7 = stablehlo.divide %4, %6 : tensor<512x512xf32>
    %8 = stablehlo.dot_general %4, %4, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %7, %8 : tensor<512x512xf32>, tensor<512x512xf32>
  }
}

// -----

/// Reductions of constants, of which a kernel contains a copy.

// CHECK-LABEL: module @of_constants
// CHECK: "mhlo.fusion"() <{fusion_kind = #mhlo<fusion_kind kLoop>}>
// CHECK: "mhlo.fusion"() <{fusion_kind = #mhlo<fusion_kind kInput>}>
module @of_constants {
  func.func @main(%x: tensor<4x128xf32>) -> (tensor<3xui8>, tensor<4x128xf32>) {
    %c = stablehlo.constant dense<[[1, 0, 3], [3, 0, 1]]> : tensor<2x3xui8>
    %z = stablehlo.constant dense<0> : tensor<ui8>
    %0 = stablehlo.reduce(%c init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<2x3xui8>, tensor<ui8>) -> tensor<3xui8>
    %ones = stablehlo.constant dense<1.0> : tensor<4x128xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%ones init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x128xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x128xf32>
    %3 = stablehlo.divide %x, %2 : tensor<4x128xf32>
    return %0, %3 : tensor<3xui8>, tensor<4x128xf32>
  }
}

// -----

/// A row of more than 16,384 elements is no normalisation in one kernel;

// CHECK-LABEL: module @longer_rows
module @longer_rows {
  // CHECK: %[[R:.*]] = stablehlo.reduce(%arg0
  // CHECK: "mhlo.fusion"
  func.func @main(%x: tensor<64x16385xf32>) -> (tensor<64x16385xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x16385xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x16385xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x16385xf32>
    return %2 : tensor<64x16385xf32>
  }
}

// -----

// CHECK-LABEL: module @longest_rows
module @longest_rows {
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.subtract
  func.func @main(%x: tensor<64x16384xf32>) -> (tensor<64x16384xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x16384xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x16384xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x16384xf32>
    return %2 : tensor<64x16384xf32>
  }
}

// -----

/// nor is one of another value,

// CHECK-LABEL: module @other_value
module @other_value {
  // CHECK: stablehlo.reduce(%arg1
  // CHECK: "mhlo.fusion"
  func.func @main(%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

/// with a step of two operands between,

// CHECK-LABEL: module @other_step
module @other_step {
  // CHECK: stablehlo.reduce(%arg0
  // CHECK: "mhlo.fusion"
  func.func @main(%x: tensor<64x1024xf32>, %v: tensor<64xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %s = stablehlo.multiply %0, %v : tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}

// -----

/// or with a reduction of two values.

// CHECK-LABEL: module @two_values
module @two_values {
  // CHECK: %[[R:.*]]:2 = stablehlo.reduce(%arg0
  // CHECK: "mhlo.fusion"(%[[R]]#0, %arg0)
  func.func @main(%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.reduce(%x init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<64x1024xf32>, tensor<64x1024xf32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }
    %1 = stablehlo.broadcast_in_dim %0#0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    return %2, %0#1 : tensor<64x1024xf32>, tensor<64xf32>
  }
}

// -----

/// The op that ends it reads the value and the broadcast, and nothing else.

// CHECK-LABEL: module @three_readers
module @three_readers {
  // CHECK: stablehlo.reduce(%arg0
  // CHECK: "mhlo.fusion"
  func.func @main(%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.clamp %x, %1, %y : tensor<64x1024xf32>
    return %2 : tensor<64x1024xf32>
  }
}
