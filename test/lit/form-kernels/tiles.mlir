// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Rows of 32 elements or more, or of a divisor of 32, are reduced in tiles, and columns that are long and
/// wide enough: the kernel is a kInput fusion. Others are loops. The limits are those of XLA's reduction_utils.cc.

// CHECK-LABEL: module @tiles
module @tiles {
  // CHECK: "mhlo.fusion"(%arg0) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg1) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg2) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg3) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg4) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg5) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg6) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg7) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg8) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg9) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg10) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg11) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg12) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg13) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg14) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg15) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg16) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg17) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg18) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg19) {{.*}} kInput>
  func.func @main(%a0: tensor<31x64xf32>, %a1: tensor<32x32xf32>, %a2: tensor<63x31xf32>, %a3: tensor<63x32xf32>, %a4: tensor<64x31xf32>, %a5: tensor<127x7xf32>, %a6: tensor<127x8xf32>, %a7: tensor<128x7xf32>, %a8: tensor<255x2xf32>, %a9: tensor<255x3xf32>, %a10: tensor<256x2xf32>, %a11: tensor<8x31xf32>, %a12: tensor<8x16xf32>, %a13: tensor<8x32xf32>, %a14: tensor<8x33xf32>, %a15: tensor<64x1xf32>, %a16: tensor<2x32x3x32xf32>, %a17: tensor<32x1x16x64xf32>, %a18: tensor<4x64x8xf32>, %a19: tensor<512xf32>) -> (tensor<64xf32>, tensor<32xf32>, tensor<31xf32>, tensor<32xf32>, tensor<31xf32>, tensor<7xf32>, tensor<8xf32>, tensor<7xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64xf32>, tensor<2x3xf32>, tensor<32x16xf32>, tensor<64xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %n0 = stablehlo.negate %a0 : tensor<31x64xf32>
    %r0 = stablehlo.reduce(%n0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<31x64xf32>, tensor<f32>) -> tensor<64xf32>
    %n1 = stablehlo.negate %a1 : tensor<32x32xf32>
    %r1 = stablehlo.reduce(%n1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %n2 = stablehlo.negate %a2 : tensor<63x31xf32>
    %r2 = stablehlo.reduce(%n2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<63x31xf32>, tensor<f32>) -> tensor<31xf32>
    %n3 = stablehlo.negate %a3 : tensor<63x32xf32>
    %r3 = stablehlo.reduce(%n3 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<63x32xf32>, tensor<f32>) -> tensor<32xf32>
    %n4 = stablehlo.negate %a4 : tensor<64x31xf32>
    %r4 = stablehlo.reduce(%n4 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x31xf32>, tensor<f32>) -> tensor<31xf32>
    %n5 = stablehlo.negate %a5 : tensor<127x7xf32>
    %r5 = stablehlo.reduce(%n5 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<127x7xf32>, tensor<f32>) -> tensor<7xf32>
    %n6 = stablehlo.negate %a6 : tensor<127x8xf32>
    %r6 = stablehlo.reduce(%n6 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<127x8xf32>, tensor<f32>) -> tensor<8xf32>
    %n7 = stablehlo.negate %a7 : tensor<128x7xf32>
    %r7 = stablehlo.reduce(%n7 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<128x7xf32>, tensor<f32>) -> tensor<7xf32>
    %n8 = stablehlo.negate %a8 : tensor<255x2xf32>
    %r8 = stablehlo.reduce(%n8 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<255x2xf32>, tensor<f32>) -> tensor<2xf32>
    %n9 = stablehlo.negate %a9 : tensor<255x3xf32>
    %r9 = stablehlo.reduce(%n9 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<255x3xf32>, tensor<f32>) -> tensor<3xf32>
    %n10 = stablehlo.negate %a10 : tensor<256x2xf32>
    %r10 = stablehlo.reduce(%n10 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256x2xf32>, tensor<f32>) -> tensor<2xf32>
    %n11 = stablehlo.negate %a11 : tensor<8x31xf32>
    %r11 = stablehlo.reduce(%n11 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x31xf32>, tensor<f32>) -> tensor<8xf32>
    %n12 = stablehlo.negate %a12 : tensor<8x16xf32>
    %r12 = stablehlo.reduce(%n12 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %n13 = stablehlo.negate %a13 : tensor<8x32xf32>
    %r13 = stablehlo.reduce(%n13 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %n14 = stablehlo.negate %a14 : tensor<8x33xf32>
    %r14 = stablehlo.reduce(%n14 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x33xf32>, tensor<f32>) -> tensor<8xf32>
    %n15 = stablehlo.negate %a15 : tensor<64x1xf32>
    %r15 = stablehlo.reduce(%n15 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1xf32>, tensor<f32>) -> tensor<64xf32>
    %n16 = stablehlo.negate %a16 : tensor<2x32x3x32xf32>
    %r16 = stablehlo.reduce(%n16 init: %zero) applies stablehlo.add across dimensions = [1, 3] : (tensor<2x32x3x32xf32>, tensor<f32>) -> tensor<2x3xf32>
    %n17 = stablehlo.negate %a17 : tensor<32x1x16x64xf32>
    %r17 = stablehlo.reduce(%n17 init: %zero) applies stablehlo.add across dimensions = [1, 3] : (tensor<32x1x16x64xf32>, tensor<f32>) -> tensor<32x16xf32>
    %n18 = stablehlo.negate %a18 : tensor<4x64x8xf32>
    %r18 = stablehlo.reduce(%n18 init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<4x64x8xf32>, tensor<f32>) -> tensor<64xf32>
    %n19 = stablehlo.negate %a19 : tensor<512xf32>
    %r19 = stablehlo.reduce(%n19 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<512xf32>, tensor<f32>) -> tensor<f32>
    return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19 : tensor<64xf32>, tensor<32xf32>, tensor<31xf32>, tensor<32xf32>, tensor<31xf32>, tensor<7xf32>, tensor<8xf32>, tensor<7xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64xf32>, tensor<2x3xf32>, tensor<32x16xf32>, tensor<64xf32>, tensor<f32>
  }
}

// -----

/// A reduction counts among the 8 of a kernel with what is computed after it, too,

// CHECK-LABEL: module @many_with_epilogues
module @many_with_epilogues {
  // CHECK: %[[A:.*]]:8 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.cosine
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.sine
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.abs
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.sqrt
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.log
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]#0, %[[A]]#1, %[[A]]#2, %[[A]]#3, %[[A]]#4, %[[A]]#5, %[[A]]#6, %[[A]]#7, %[[B]]
  func.func @main(%x: tensor<1024x4096xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %c0 = stablehlo.tanh %x : tensor<1024x4096xf32>
    %s0 = stablehlo.reduce(%c0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r0 = stablehlo.rsqrt %s0 : tensor<1024xf32>
    %c1 = stablehlo.cosine %x : tensor<1024x4096xf32>
    %s1 = stablehlo.reduce(%c1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r1 = stablehlo.rsqrt %s1 : tensor<1024xf32>
    %c2 = stablehlo.sine %x : tensor<1024x4096xf32>
    %s2 = stablehlo.reduce(%c2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r2 = stablehlo.rsqrt %s2 : tensor<1024xf32>
    %c3 = stablehlo.exponential %x : tensor<1024x4096xf32>
    %s3 = stablehlo.reduce(%c3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r3 = stablehlo.rsqrt %s3 : tensor<1024xf32>
    %c4 = stablehlo.negate %x : tensor<1024x4096xf32>
    %s4 = stablehlo.reduce(%c4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r4 = stablehlo.rsqrt %s4 : tensor<1024xf32>
    %c5 = stablehlo.abs %x : tensor<1024x4096xf32>
    %s5 = stablehlo.reduce(%c5 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r5 = stablehlo.rsqrt %s5 : tensor<1024xf32>
    %c6 = stablehlo.sqrt %x : tensor<1024x4096xf32>
    %s6 = stablehlo.reduce(%c6 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r6 = stablehlo.rsqrt %s6 : tensor<1024xf32>
    %c7 = stablehlo.rsqrt %x : tensor<1024x4096xf32>
    %s7 = stablehlo.reduce(%c7 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r7 = stablehlo.rsqrt %s7 : tensor<1024xf32>
    %c8 = stablehlo.log %x : tensor<1024x4096xf32>
    %s8 = stablehlo.reduce(%c8 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %r8 = stablehlo.rsqrt %s8 : tensor<1024xf32>
    return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// and so does its shared memory.

// CHECK-LABEL: module @shared_memory_with_epilogues
module @shared_memory_with_epilogues {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.abs
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.floor
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.ceil
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]#0, %[[A]]#1, %[[B]]
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %c0 = stablehlo.abs %x : tensor<1024x512xf32>
    %s0 = stablehlo.reduce(%c0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %r0 = stablehlo.rsqrt %s0 : tensor<512xf32>
    %c1 = stablehlo.floor %x : tensor<1024x512xf32>
    %s1 = stablehlo.reduce(%c1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %r1 = stablehlo.rsqrt %s1 : tensor<512xf32>
    %c2 = stablehlo.ceil %x : tensor<1024x512xf32>
    %s2 = stablehlo.reduce(%c2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %r2 = stablehlo.rsqrt %s2 : tensor<512xf32>
    return %r0, %r1, %r2 : tensor<512xf32>, tensor<512xf32>, tensor<512xf32>
  }
}

// -----

/// Two transposes have tiles in shared memory, which holds two of complex doubles; dimensions of 1 do not count
/// for what their order is.

// CHECK-LABEL: module @transposes
module @transposes {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.transpose
  // CHECK: {hespas.kernel = {kind = "transpose"}}
  // CHECK: %[[B:.*]] = stablehlo.transpose %arg0
  // CHECK: return %[[A]]#0, %[[A]]#1, %[[B]]
  func.func @main(%x: tensor<1024x1x512xcomplex<f64>>) -> (tensor<512x1x1024xcomplex<f64>>, tensor<512x1024x1xcomplex<f64>>, tensor<1x512x1024xcomplex<f64>>) {
    %n = stablehlo.negate %x : tensor<1024x1x512xcomplex<f64>>
    %0 = stablehlo.transpose %n, dims = [2, 1, 0] : (tensor<1024x1x512xcomplex<f64>>) -> tensor<512x1x1024xcomplex<f64>>
    %1 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<1024x1x512xcomplex<f64>>) -> tensor<512x1024x1xcomplex<f64>>
    %2 = stablehlo.transpose %x, dims = [1, 2, 0] : (tensor<1024x1x512xcomplex<f64>>) -> tensor<1x512x1024xcomplex<f64>>
    return %0, %1, %2 : tensor<512x1x1024xcomplex<f64>>, tensor<512x1024x1xcomplex<f64>>, tensor<1x512x1024xcomplex<f64>>
  }
}

// -----

/// A reduction of less than 16 elements to one is computed where another one reads it,

// CHECK-LABEL: module @few_elements
module @few_elements {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<15x1024x64xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<15x1024x64xf32>, tensor<f32>) -> tensor<1024x64xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<1024xf32>
    return %1 : tensor<1024xf32>
  }
}

// -----

/// one of 16 is not,

// CHECK-LABEL: module @sixteen_elements
module @sixteen_elements {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = stablehlo.reduce(%[[A]] init: %{{.*}}) applies stablehlo.maximum
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<16x1024x64xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x1024x64xf32>, tensor<f32>) -> tensor<1024x64xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<1024xf32>
    return %1 : tensor<1024xf32>
  }
}

// -----

/// also with a step between the two.

// CHECK-LABEL: module @step_between
module @step_between {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = stablehlo.reduce(%[[A]] init: %{{.*}}) applies stablehlo.maximum
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<1024x64x24xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<1024x64x24xf32>, tensor<f32>) -> tensor<1024x64xf32>
    %m = stablehlo.tanh %0 : tensor<1024x64xf32>
    %1 = stablehlo.reduce(%m init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<1024xf32>
    return %1 : tensor<1024xf32>
  }
}

// -----

/// A reduction takes along a step of one operand that is elementwise: no broadcast,

// CHECK-LABEL: module @broadcast_after
module @broadcast_after {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[A]]
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<1024x512xf32>) -> tensor<4x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<1024xf32>) -> tensor<4x1024xf32>
    return %1 : tensor<4x1024xf32>
  }
}

// -----

/// and not one that has taken in a step of two operands.

// CHECK-LABEL: module @step_of_two
module @step_of_two {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg1) {{.*}} kLoop
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.multiply %0, %y : tensor<1024xf32>
    %2 = stablehlo.tanh %1 : tensor<1024xf32>
    return %2 : tensor<1024xf32>
  }
}

// -----

/// With it the kernel still loops over what is reduced, and shares this loop.

// CHECK-LABEL: module @shared_with_epilogue
module @shared_with_epilogue {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.rsqrt
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]#0, %[[A]]#1
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<1024x512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.rsqrt %0 : tensor<1024xf32>
    %2 = stablehlo.cosine %x : tensor<1024x512xf32>
    return %1, %2 : tensor<1024xf32>, tensor<1024x512xf32>
  }
}

// -----

/// A step after a normalisation of rows is a part of its loop.

// CHECK-LABEL: module @row_scaled
module @row_scaled {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kCustom
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.multiply
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    %3 = stablehlo.multiply %2, %y : tensor<64x1024xf32>
    return %3 : tensor<64x1024xf32>
  }
}

// -----

/// A transpose sets the order of the loop if only steps of one operand follow; another loop would read it in strides.

// CHECK-LABEL: module @transpose_then_unary
module @transpose_then_unary {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "transpose"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<1024x512xf32>) -> tensor<512x1024xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    %1 = stablehlo.tanh %0 : tensor<512x1024xf32>
    return %1 : tensor<512x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @transpose_then_add
module @transpose_then_add {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kInput
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "transpose"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    %1 = stablehlo.add %0, %y : tensor<512x1024xf32>
    return %1 : tensor<512x1024xf32>
  }
}

// -----

/// The conversion of bytes to truth values is no view: they take more bytes.

// CHECK-LABEL: module @truth_values
module @truth_values {
  // CHECK: %[[A:.*]] = stablehlo.not %arg0
  // CHECK: %[[B:.*]] = stablehlo.bitcast_convert %[[A]]
  // CHECK: %[[C:.*]] = stablehlo.not %[[B]]
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<1024xi8>) -> tensor<1024x8xi1> {
    %0 = stablehlo.not %x : tensor<1024xi8>
    %1 = stablehlo.bitcast_convert %0 : (tensor<1024xi8>) -> tensor<1024x8xi1>
    %2 = stablehlo.not %1 : tensor<1024x8xi1>
    return %2 : tensor<1024x8xi1>
  }
}

// -----

/// A transpose has tiles in shared memory if both of its dimensions have 16 elements, or 8 and the tile many, or if
/// 64 bits at most stay together, and are enough with the smaller dimension; else it is a loop. (XLA, jaxlib 0.12.0.1.)

// CHECK-LABEL: module @transposed_tiles
module @transposed_tiles {
  // CHECK: "mhlo.fusion"(%arg0) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg1) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg2) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg3) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg4) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg5) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg6) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg7) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg8) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg9) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg10) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg11) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg12) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg13) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg14) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg15) {{.*}} kLoop>
  // CHECK: "mhlo.fusion"(%arg16) {{.*}} kInput>
  // CHECK: "mhlo.fusion"(%arg17) {{.*}} kInput>
  func.func @main(%a0: tensor<1024x512x2xf32>, %a1: tensor<1024x512x3xf32>, %a2: tensor<1024x512x4xbf16>, %a3: tensor<1024x512x5xbf16>, %a4: tensor<3x4096x2xbf16>, %a5: tensor<4x4096x2xbf16>, %a6: tensor<4096x3x2xbf16>, %a7: tensor<2x4096x2xf32>, %a8: tensor<15x4096xf32>, %a9: tensor<8x1024xf32>, %a10: tensor<8x1000xf32>, %a11: tensor<7x8192xf32>, %a12: tensor<512x8xf32>, %a13: tensor<1024x8xf32>, %a14: tensor<16x100xf32>, %a15: tensor<64x16x4x32xf32>, %a16: tensor<3x1024x1x512xf32>, %a17: tensor<2x256x2x64xf32>) -> (tensor<512x1024x2xf32>, tensor<512x1024x3xf32>, tensor<512x1024x4xbf16>, tensor<512x1024x5xbf16>, tensor<4096x3x2xbf16>, tensor<4096x4x2xbf16>, tensor<3x4096x2xbf16>, tensor<4096x2x2xf32>, tensor<4096x15xf32>, tensor<1024x8xf32>, tensor<1000x8xf32>, tensor<8192x7xf32>, tensor<8x512xf32>, tensor<8x1024xf32>, tensor<100x16xf32>, tensor<16x64x32x4xf32>, tensor<3x512x1x1024xf32>, tensor<2x2x64x256xf32>) {
    %t0 = stablehlo.transpose %a0, dims = [1, 0, 2] : (tensor<1024x512x2xf32>) -> tensor<512x1024x2xf32>
    %r0 = stablehlo.tanh %t0 : tensor<512x1024x2xf32>
    %t1 = stablehlo.transpose %a1, dims = [1, 0, 2] : (tensor<1024x512x3xf32>) -> tensor<512x1024x3xf32>
    %r1 = stablehlo.tanh %t1 : tensor<512x1024x3xf32>
    %t2 = stablehlo.transpose %a2, dims = [1, 0, 2] : (tensor<1024x512x4xbf16>) -> tensor<512x1024x4xbf16>
    %r2 = stablehlo.tanh %t2 : tensor<512x1024x4xbf16>
    %t3 = stablehlo.transpose %a3, dims = [1, 0, 2] : (tensor<1024x512x5xbf16>) -> tensor<512x1024x5xbf16>
    %r3 = stablehlo.tanh %t3 : tensor<512x1024x5xbf16>
    %t4 = stablehlo.transpose %a4, dims = [1, 0, 2] : (tensor<3x4096x2xbf16>) -> tensor<4096x3x2xbf16>
    %r4 = stablehlo.tanh %t4 : tensor<4096x3x2xbf16>
    %t5 = stablehlo.transpose %a5, dims = [1, 0, 2] : (tensor<4x4096x2xbf16>) -> tensor<4096x4x2xbf16>
    %r5 = stablehlo.tanh %t5 : tensor<4096x4x2xbf16>
    %t6 = stablehlo.transpose %a6, dims = [1, 0, 2] : (tensor<4096x3x2xbf16>) -> tensor<3x4096x2xbf16>
    %r6 = stablehlo.tanh %t6 : tensor<3x4096x2xbf16>
    %t7 = stablehlo.transpose %a7, dims = [1, 0, 2] : (tensor<2x4096x2xf32>) -> tensor<4096x2x2xf32>
    %r7 = stablehlo.tanh %t7 : tensor<4096x2x2xf32>
    %t8 = stablehlo.transpose %a8, dims = [1, 0] : (tensor<15x4096xf32>) -> tensor<4096x15xf32>
    %r8 = stablehlo.tanh %t8 : tensor<4096x15xf32>
    %t9 = stablehlo.transpose %a9, dims = [1, 0] : (tensor<8x1024xf32>) -> tensor<1024x8xf32>
    %r9 = stablehlo.tanh %t9 : tensor<1024x8xf32>
    %t10 = stablehlo.transpose %a10, dims = [1, 0] : (tensor<8x1000xf32>) -> tensor<1000x8xf32>
    %r10 = stablehlo.tanh %t10 : tensor<1000x8xf32>
    %t11 = stablehlo.transpose %a11, dims = [1, 0] : (tensor<7x8192xf32>) -> tensor<8192x7xf32>
    %r11 = stablehlo.tanh %t11 : tensor<8192x7xf32>
    %t12 = stablehlo.transpose %a12, dims = [1, 0] : (tensor<512x8xf32>) -> tensor<8x512xf32>
    %r12 = stablehlo.tanh %t12 : tensor<8x512xf32>
    %t13 = stablehlo.transpose %a13, dims = [1, 0] : (tensor<1024x8xf32>) -> tensor<8x1024xf32>
    %r13 = stablehlo.tanh %t13 : tensor<8x1024xf32>
    %t14 = stablehlo.transpose %a14, dims = [1, 0] : (tensor<16x100xf32>) -> tensor<100x16xf32>
    %r14 = stablehlo.tanh %t14 : tensor<100x16xf32>
    %t15 = stablehlo.transpose %a15, dims = [1, 0, 3, 2] : (tensor<64x16x4x32xf32>) -> tensor<16x64x32x4xf32>
    %r15 = stablehlo.tanh %t15 : tensor<16x64x32x4xf32>
    %t16 = stablehlo.transpose %a16, dims = [0, 3, 2, 1] : (tensor<3x1024x1x512xf32>) -> tensor<3x512x1x1024xf32>
    %r16 = stablehlo.tanh %t16 : tensor<3x512x1x1024xf32>
    %t17 = stablehlo.transpose %a17, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xf32>) -> tensor<2x2x64x256xf32>
    %r17 = stablehlo.tanh %t17 : tensor<2x2x64x256xf32>
    return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17 : tensor<512x1024x2xf32>, tensor<512x1024x3xf32>, tensor<512x1024x4xbf16>, tensor<512x1024x5xbf16>, tensor<4096x3x2xbf16>, tensor<4096x4x2xbf16>, tensor<3x4096x2xbf16>, tensor<4096x2x2xf32>, tensor<4096x15xf32>, tensor<1024x8xf32>, tensor<1000x8xf32>, tensor<8192x7xf32>, tensor<8x512xf32>, tensor<8x1024xf32>, tensor<100x16xf32>, tensor<16x64x32x4xf32>, tensor<3x512x1x1024xf32>, tensor<2x2x64x256xf32>
  }
}
