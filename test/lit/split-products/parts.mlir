// RUN: hespas-opt %s --split-products=target=H100_80GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-products=target=H100_80GB --split-products=target=H100_80GB --split-input-file | filecheck %s
// RUN: not hespas-opt %s --split-products=target=H100 --split-input-file 2>&1 | filecheck %s --check-prefix=NAME

/// XLA's SplitkRewriter of jaxlib 0.12.0.1 divides all cases so
/// (hespas-opt --xla-optimize=target=H100_80GB,keep-hlo=FOLDER).

// NAME: error: no target is named 'H100'; did you mean 'H100_80GB'

/// Two parts of an inner dimension give more cores work; a reduction adds them in the type of the sum.

// CHECK-LABEL: module @parts
module @parts {
  // CHECK: %[[X:.*]] = stablehlo.reshape %arg0 : (tensor<1024x8192xbf16>) -> tensor<1024x2x4096xbf16>
  // CHECK: %[[W:.*]] = stablehlo.reshape %arg1 : (tensor<8192x1024xbf16>) -> tensor<2x4096x1024xbf16>
  // CHECK: %[[P:.*]] = stablehlo.dot_general %[[X]], %[[W]], batching_dims = [1] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : {{.*}} -> tensor<2x1024x1024xf32>
  // CHECK: %[[S:.*]] = stablehlo.reduce(%[[P]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
  // CHECK: stablehlo.convert %[[S]] : (tensor<1024x1024xf32>) -> tensor<1024x1024xbf16>
  func.func @main(%x: tensor<1024x8192xbf16>, %w: tensor<8192x1024xbf16>) -> tensor<1024x1024xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1024x8192xbf16>, tensor<8192x1024xbf16>) -> tensor<1024x1024xbf16>
    return %0 : tensor<1024x1024xbf16>
  }
}

// -----

/// The batch comes before the parts, and several contracted dimensions are one.

// CHECK-LABEL: module @batch
module @batch {
  // CHECK: stablehlo.dot_general {{.*}} batching_dims = [0, 2] x [0, 1], contracting_dims = [3] x [2] : (tensor<16x16x16x512xbf16>, tensor<16x16x512x64xbf16>) -> tensor<16x16x16x64xf32>
  // CHECK: across dimensions = [1]
  func.func @main(%x: tensor<16x16x64x128xbf16>, %w: tensor<16x64x128x64xbf16>) -> tensor<16x16x64xbf16> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2, 3] x [1, 2] : (tensor<16x16x64x128xbf16>, tensor<16x64x128x64xbf16>) -> tensor<16x16x64xbf16>
    return %0 : tensor<16x16x64xbf16>
  }
}

// -----

/// Parts have whole multiples of 16 bytes: others are padded.

// CHECK-LABEL: module @padded
module @padded {
  // CHECK: stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [0, 24], interior = [0, 0] : {{.*}} -> tensor<300x1024xbf16>
  // CHECK: -> tensor<300x8x128xbf16>
  // CHECK: stablehlo.pad %arg1
  // CHECK: -> tensor<8x128x50xbf16>
  func.func @main(%x: tensor<300x1000xbf16>, %w: tensor<1000x50xbf16>) -> tensor<300x50xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<300x1000xbf16>, tensor<1000x50xbf16>) -> tensor<300x50xbf16>
    return %0 : tensor<300x50xbf16>
  }
}

// -----

/// Integers are added as such.

// CHECK-LABEL: module @integers
module @integers {
  // CHECK: stablehlo.dot_general {{.*}} : (tensor<1024x2x4096xi8>, tensor<2x4096x1024xi8>) -> tensor<2x1024x1024xi32>
  // CHECK: %[[S:.*]] = stablehlo.reduce
  // CHECK-NOT: tensor<1024x1024xi8>
  func.func @main(%x: tensor<1024x8192xi8>, %w: tensor<8192x1024xi8>) -> tensor<1024x1024xi32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xi8>, tensor<8192x1024xi8>) -> tensor<1024x1024xi32>
    return %0 : tensor<1024x1024xi32>
  }
}

// -----

/// A product that fills the cores stays, and so does one of integers of 32 bits.

// CHECK-LABEL: module @whole
module @whole {
  // CHECK-NOT: stablehlo.reduce
  // CHECK: return
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>, %i: tensor<1024x8192xi32>, %j: tensor<8192x1024xi32>) -> (tensor<4096x4096xbf16>, tensor<1024x1024xi32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %1 = stablehlo.dot_general %i, %j, contracting_dims = [1] x [0] : (tensor<1024x8192xi32>, tensor<8192x1024xi32>) -> tensor<1024x1024xi32>
    return %0, %1 : tensor<4096x4096xbf16>, tensor<1024x1024xi32>
  }
}

// -----

/// Complex numbers are divided like others, and more of their bytes into fewer parts.

// CHECK-LABEL: module @complex
// CHECK: stablehlo.dot_general {{.*}} -> tensor<128x64x64xcomplex<f32>>
// CHECK: stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>
// CHECK: stablehlo.dot_general {{.*}} -> tensor<64x64x64xcomplex<f64>>
module @complex {
  func.func @main(%x: tensor<64x65536xcomplex<f32>>, %w: tensor<65536x64xcomplex<f32>>, %y: tensor<64x65536xcomplex<f64>>, %v: tensor<65536x64xcomplex<f64>>) -> (tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f64>>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x65536xcomplex<f32>>, tensor<65536x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
    %1 = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<64x65536xcomplex<f64>>, tensor<65536x64xcomplex<f64>>) -> tensor<64x64xcomplex<f64>>
    return %0, %1 : tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f64>>
  }
}

// -----

/// The product reads bytes if these are converted before: 16 parts, and 8 if it reads numbers of 32 bits.

// CHECK-LABEL: module @converted
module @converted {
  // CHECK: stablehlo.dot_general {{.*}} : (tensor<2x16x2048xf32>, tensor<16x2048x8192xf32>) -> tensor<16x2x8192xf32>
  func.func @main(%x: tensor<2x32768xf32>, %w: tensor<32768x8192xi8>) -> tensor<2x8192xf32> {
    %c = stablehlo.convert %w : (tensor<32768x8192xi8>) -> tensor<32768x8192xf32>
    %0 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<2x32768xf32>, tensor<32768x8192xf32>) -> tensor<2x8192xf32>
    return %0 : tensor<2x8192xf32>
  }
}

// -----

/// Contracted dimensions that are no neighbours are divided after transpose-operands has made them one.

// CHECK-LABEL: module @apart
module @apart {
  // CHECK-NOT: stablehlo.reduce
  // CHECK: return
  func.func @main(%x: tensor<64x4x64x4096xbf16>, %w: tensor<64x4x4096x64xbf16>) -> tensor<4x64x4x64xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [0, 3] x [0, 2] : (tensor<64x4x64x4096xbf16>, tensor<64x4x4096x64xbf16>) -> tensor<4x64x4x64xbf16>
    return %0 : tensor<4x64x4x64xbf16>
  }
}

// -----

/// A program without a product stays as it is.

// CHECK-LABEL: module @other
module @other {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: return
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.tanh %x : tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// -----

/// The sum of a batch is none of parts: each product of the batch is divided too.

// CHECK-LABEL: module @summed
module @summed {
  // CHECK: stablehlo.dot_general {{.*}} batching_dims = [0, 2] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x64x128x512xbf16>, tensor<2x128x512x64xbf16>) -> tensor<2x128x64x64xf32>
  // CHECK: across dimensions = [1]
  // CHECK: across dimensions = [0]
  func.func @main(%x: tensor<2x64x65536xbf16>, %w: tensor<2x65536x64xbf16>) -> tensor<64x64xbf16> {
    %z = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x64x65536xbf16>, tensor<2x65536x64xbf16>) -> tensor<2x64x64xbf16>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2x64x64xbf16>, tensor<bf16>) -> tensor<64x64xbf16>
    return %1 : tensor<64x64xbf16>
  }
}

// -----

/// The batch may come after what is contracted; a product that contracts nothing has no parts.

// CHECK-LABEL: module @inner_batch
module @inner_batch {
  // CHECK: stablehlo.dot_general {{.*}} batching_dims = [3, 0] x [3, 0], contracting_dims = [1] x [1] : (tensor<128x512x64x2xbf16>, tensor<128x512x64x2xbf16>) -> tensor<2x128x64x64xf32>
  // CHECK: across dimensions = [1]
  // CHECK: stablehlo.dot_general %arg2, %arg3
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<65536x64x2xbf16>, %w: tensor<65536x64x2xbf16>, %u: tensor<64x1xbf16>, %v: tensor<64xbf16>) -> (tensor<2x64x64xbf16>, tensor<64x1x64xbf16>) {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [2] x [2], contracting_dims = [0] x [0] : (tensor<65536x64x2xbf16>, tensor<65536x64x2xbf16>) -> tensor<2x64x64xbf16>
    %1 = stablehlo.dot_general %u, %v, contracting_dims = [] x [] : (tensor<64x1xbf16>, tensor<64xbf16>) -> tensor<64x1x64xbf16>
    return %0, %1 : tensor<2x64x64xbf16>, tensor<64x1x64xbf16>
  }
}

// -----

/// Small results are divided although the parts are short; larger ones are not worth the launch of the reduction.

// CHECK-LABEL: module @short
module @short {
  // CHECK: stablehlo.dot_general {{.*}} (tensor<128x16x64xbf16>, tensor<16x64x128xbf16>) -> tensor<16x128x128xf32>
  // CHECK: stablehlo.dot_general %arg2, %arg3
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<128x1024xbf16>, %w: tensor<1024x128xbf16>, %u: tensor<1024x1024xbf16>, %v: tensor<1024x1024xbf16>) -> (tensor<128x128xbf16>, tensor<1024x1024xbf16>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x1024xbf16>, tensor<1024x128xbf16>) -> tensor<128x128xbf16>
    %1 = stablehlo.dot_general %u, %v, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    return %0, %1 : tensor<128x128xbf16>, tensor<1024x1024xbf16>
  }
}
