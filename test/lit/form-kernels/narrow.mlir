// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// A reduction of 512 columns runs on 8 blocks, which would compute a cosine on 8 of 132 cores: it stays
/// apart, as in XLA's program (jaxlib 0.12.0.1). With enough columns it does not.

// CHECK-LABEL: module @few_columns
module @few_columns {
  // CHECK: %[[C:.*]] = stablehlo.cosine %arg0
  // CHECK: stablehlo.reduce(%[[C]]
  func.func @main(%x: tensor<1024x512xf32>) -> tensor<512xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.cosine %x : tensor<1024x512xf32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    return %1 : tensor<512xf32>
  }
}

// -----

// CHECK-LABEL: module @many_columns
module @many_columns {
  // CHECK: "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.cosine
  // CHECK: stablehlo.reduce
  func.func @main(%x: tensor<1024x65536xf32>) -> tensor<65536xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.cosine %x : tensor<1024x65536xf32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x65536xf32>, tensor<f32>) -> tensor<65536xf32>
    return %1 : tensor<65536xf32>
  }
}

// -----

/// A kernel that keeps rows takes in a reduction of the same rows, and reads them once for both.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kCustom
  // CHECK-COUNT-2: stablehlo.reduce
  // CHECK: return %[[F]]
  func.func @main(%x: tensor<16384x1024xf32>, %y: tensor<16384x1024xf32>) -> tensor<16384x1024xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.multiply %x, %y : tensor<16384x1024xf32>
    %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %6 = stablehlo.add %2, %5 : tensor<16384x1024xf32>
    return %6 : tensor<16384x1024xf32>
  }
}

// -----

/// A block reduces 32 columns, times two for elements of 32 bits and four of 16, where their number is a multiple
/// and they are no f64: 94, 64, 129, 66, 128, 128 and 64 blocks. (XLA of jaxlib 0.12.0.1.)

// CHECK-LABEL: module @blocks_of_columns
module @blocks_of_columns {
  // CHECK: stablehlo.cosine %arg0
  // CHECK: stablehlo.cosine %arg1
  // CHECK: "mhlo.fusion"(%arg2) {{.*}} kInput
  // CHECK: stablehlo.cosine %arg3
  // CHECK: "mhlo.fusion"(%arg4) {{.*}} kInput
  // CHECK: "mhlo.fusion"(%arg5) {{.*}} kInput
  // CHECK: "mhlo.fusion"(%arg6) {{.*}} kLoop
  func.func @main(%a0: tensor<1024x3001xf32>, %a1: tensor<1024x4096xf32>, %a2: tensor<1024x4097xf32>, %a3: tensor<1024x4222xf32>, %a4: tensor<1024x4096xf64>, %a5: tensor<1024x8190xbf16>, %a6: tensor<1024x8192xbf16>) -> (tensor<3001xf32>, tensor<4096xf32>, tensor<4097xf32>, tensor<4222xf32>, tensor<4096xf64>, tensor<8190xf32>, tensor<8192xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %w = stablehlo.constant dense<0.0> : tensor<f64>
    %c0 = stablehlo.cosine %a0 : tensor<1024x3001xf32>
    %r0 = stablehlo.reduce(%c0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x3001xf32>, tensor<f32>) -> tensor<3001xf32>
    %c1 = stablehlo.cosine %a1 : tensor<1024x4096xf32>
    %r1 = stablehlo.reduce(%c1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %c2 = stablehlo.cosine %a2 : tensor<1024x4097xf32>
    %r2 = stablehlo.reduce(%c2 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x4097xf32>, tensor<f32>) -> tensor<4097xf32>
    %c3 = stablehlo.cosine %a3 : tensor<1024x4222xf32>
    %r3 = stablehlo.reduce(%c3 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x4222xf32>, tensor<f32>) -> tensor<4222xf32>
    %c4 = stablehlo.cosine %a4 : tensor<1024x4096xf64>
    %r4 = stablehlo.reduce(%c4 init: %w) applies stablehlo.add across dimensions = [0] : (tensor<1024x4096xf64>, tensor<f64>) -> tensor<4096xf64>
    %v5 = stablehlo.convert %a5 : (tensor<1024x8190xbf16>) -> tensor<1024x8190xf32>
    %c5 = stablehlo.cosine %v5 : tensor<1024x8190xf32>
    %r5 = stablehlo.reduce(%c5 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x8190xf32>, tensor<f32>) -> tensor<8190xf32>
    %v6 = stablehlo.convert %a6 : (tensor<1024x8192xbf16>) -> tensor<1024x8192xf32>
    %c6 = stablehlo.cosine %v6 : tensor<1024x8192xf32>
    %r6 = stablehlo.reduce(%c6 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x8192xf32>, tensor<f32>) -> tensor<8192xf32>
    return %r0, %r1, %r2, %r3, %r4, %r5, %r6 : tensor<3001xf32>, tensor<4096xf32>, tensor<4097xf32>, tensor<4222xf32>, tensor<4096xf64>, tensor<8190xf32>, tensor<8192xf32>
  }
}

// -----

/// A thread reduces 16 elements of a row, and 256 threads as many rows as they can: 80, 85, 80, 100, 80 and 90 blocks.

// CHECK-LABEL: module @blocks_of_rows
module @blocks_of_rows {
  // CHECK: stablehlo.tanh %arg0
  // CHECK: "mhlo.fusion"(%arg1) {{.*}} kInput
  // CHECK: stablehlo.tanh %arg2
  // CHECK: "mhlo.fusion"(%arg3) {{.*}} kInput
  // CHECK: stablehlo.tanh %arg4
  // CHECK: "mhlo.fusion"(%arg5) {{.*}} kInput
  func.func @main(%a0: tensor<320x1024xf32>, %a1: tensor<340x1024xf32>, %a2: tensor<80x4096xf32>, %a3: tensor<100x4096xf32>, %a4: tensor<640x512xf32>, %a5: tensor<720x512xf32>) -> (tensor<320x1024xf32>, tensor<320xf32>, tensor<340x1024xf32>, tensor<340xf32>, tensor<80x4096xf32>, tensor<80xf32>, tensor<100x4096xf32>, tensor<100xf32>, tensor<640x512xf32>, tensor<640xf32>, tensor<720x512xf32>, tensor<720xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %t0 = stablehlo.tanh %a0 : tensor<320x1024xf32>
    %r0 = stablehlo.reduce(%t0 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<320x1024xf32>, tensor<f32>) -> tensor<320xf32>
    %t1 = stablehlo.tanh %a1 : tensor<340x1024xf32>
    %r1 = stablehlo.reduce(%t1 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<340x1024xf32>, tensor<f32>) -> tensor<340xf32>
    %t2 = stablehlo.tanh %a2 : tensor<80x4096xf32>
    %r2 = stablehlo.reduce(%t2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<80x4096xf32>, tensor<f32>) -> tensor<80xf32>
    %t3 = stablehlo.tanh %a3 : tensor<100x4096xf32>
    %r3 = stablehlo.reduce(%t3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<100x4096xf32>, tensor<f32>) -> tensor<100xf32>
    %t4 = stablehlo.tanh %a4 : tensor<640x512xf32>
    %r4 = stablehlo.reduce(%t4 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<640x512xf32>, tensor<f32>) -> tensor<640xf32>
    %t5 = stablehlo.tanh %a5 : tensor<720x512xf32>
    %r5 = stablehlo.reduce(%t5 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<720x512xf32>, tensor<f32>) -> tensor<720xf32>
    return %t0, %r0, %t1, %r1, %t2, %r2, %t3, %r3, %t4, %r4, %t5, %r5 : tensor<320x1024xf32>, tensor<320xf32>, tensor<340x1024xf32>, tensor<340xf32>, tensor<80x4096xf32>, tensor<80xf32>, tensor<100x4096xf32>, tensor<100xf32>, tensor<640x512xf32>, tensor<640xf32>, tensor<720x512xf32>, tensor<720xf32>
  }
}

// -----

/// A block reads the caches at a limited rate, so that 256 blocks do so at a quarter of the rate of all cores: two
/// reductions compute what they read from three vectors, which something else reads too, and not from four. (XLA of
/// jaxlib 0.12.0.1.)

// CHECK-LABEL: module @three_vectors
module @three_vectors {
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"{{.*}} kInput
  // CHECK: return %[[F]]#2, %[[F]]#0, %[[F]]#1
  func.func @main(%x: tensor<128x392x128xf32>, %v0: tensor<128xf32>, %v1: tensor<128xf32>, %v2: tensor<128xf32>) -> (tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b0 = stablehlo.broadcast_in_dim %v0, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y0 = stablehlo.minimum %x, %b0 : tensor<128x392x128xf32>
    %b1 = stablehlo.broadcast_in_dim %v1, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y1 = stablehlo.minimum %y0, %b1 : tensor<128x392x128xf32>
    %b2 = stablehlo.broadcast_in_dim %v2, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y2 = stablehlo.minimum %y1, %b2 : tensor<128x392x128xf32>
    %r = stablehlo.reduce(%y2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    %q = stablehlo.multiply %y2, %y2 : tensor<128x392x128xf32>
    %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    return %y2, %r, %s : tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
  }
}

// -----

// CHECK-LABEL: module @four_vectors
module @four_vectors {
  // CHECK: %[[Y:.*]] = "mhlo.fusion"{{.*}} kLoop
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%[[Y]]) {{.*}} kInput
  // CHECK: return %[[Y]], %[[F]]#0, %[[F]]#1
  func.func @main(%x: tensor<128x392x128xf32>, %v0: tensor<128xf32>, %v1: tensor<128xf32>, %v2: tensor<128xf32>, %v3: tensor<128xf32>) -> (tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b0 = stablehlo.broadcast_in_dim %v0, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y0 = stablehlo.minimum %x, %b0 : tensor<128x392x128xf32>
    %b1 = stablehlo.broadcast_in_dim %v1, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y1 = stablehlo.minimum %y0, %b1 : tensor<128x392x128xf32>
    %b2 = stablehlo.broadcast_in_dim %v2, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y2 = stablehlo.minimum %y1, %b2 : tensor<128x392x128xf32>
    %b3 = stablehlo.broadcast_in_dim %v3, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y3 = stablehlo.minimum %y2, %b3 : tensor<128x392x128xf32>
    %r = stablehlo.reduce(%y3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    %q = stablehlo.multiply %y3, %y3 : tensor<128x392x128xf32>
    %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    return %y3, %r, %s : tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
  }
}

// -----

/// What kernels with the same reads gain by one loop does not depend on constants: XLA has copied them into its fusions
/// by then.

// CHECK-LABEL: module @constants
module @constants {
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"{{.*}} kInput
  // CHECK: return %[[F]]#2, %[[F]]#0, %[[F]]#1
  func.func @main(%x: tensor<128x392x128xf32>, %v0: tensor<128xf32>, %v1: tensor<128xf32>, %v2: tensor<128xf32>) -> (tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b0 = stablehlo.broadcast_in_dim %v0, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y0 = stablehlo.minimum %x, %b0 : tensor<128x392x128xf32>
    %c0 = stablehlo.constant dense<0.0> : tensor<128x392x128xf32>
    %m0 = stablehlo.maximum %y0, %c0 : tensor<128x392x128xf32>
    %b1 = stablehlo.broadcast_in_dim %v1, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y1 = stablehlo.minimum %m0, %b1 : tensor<128x392x128xf32>
    %c1 = stablehlo.constant dense<1.0> : tensor<128x392x128xf32>
    %m1 = stablehlo.maximum %y1, %c1 : tensor<128x392x128xf32>
    %b2 = stablehlo.broadcast_in_dim %v2, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y2 = stablehlo.minimum %m1, %b2 : tensor<128x392x128xf32>
    %c2 = stablehlo.constant dense<2.0> : tensor<128x392x128xf32>
    %m2 = stablehlo.maximum %y2, %c2 : tensor<128x392x128xf32>
    %r = stablehlo.reduce(%m2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    %q = stablehlo.multiply %m2, %m2 : tensor<128x392x128xf32>
    %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    return %m2, %r, %s : tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
  }
}
