// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB --split-input-file | filecheck %s

/// What a kernel does beside its operations and bytes, each with a time that follows from the constants of the node and
/// changes with them; the differences between neighbours do not.

/// The instructions of a function take issue slots beside those of its loads and stores.

// CHECK-LABEL: module @instructions
module @instructions {
  func.func @main(%x0: tensor<4194304xf32>, %y1: tensor<4194304xf32>) -> (tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>) {
    // CHECK: stablehlo.add{{.*}} latency_ns = 19322.2490
    %0 = stablehlo.add %x0, %y1 : tensor<4194304xf32>
    // CHECK: stablehlo.divide{{.*}} latency_ns = 19322.2490
    %1 = stablehlo.divide %x0, %y1 : tensor<4194304xf32>
    // CHECK: stablehlo.remainder{{.*}} latency_ns = 19322.2490
    %2 = stablehlo.remainder %x0, %y1 : tensor<4194304xf32>
    // CHECK: stablehlo.exponential{{.*}} latency_ns = 13693.2458
    %3 = stablehlo.exponential %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.exponential_minus_one{{.*}} latency_ns = 13782.5601
    %4 = stablehlo.exponential_minus_one %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.log{{.*}} latency_ns = 13693.2458
    %5 = stablehlo.log %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.log_plus_one{{.*}} latency_ns = 13782.5601
    %6 = stablehlo.log_plus_one %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.rsqrt{{.*}} latency_ns = 13693.2458
    %7 = stablehlo.rsqrt %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.sqrt{{.*}} latency_ns = 13693.2458
    %8 = stablehlo.sqrt %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.cbrt{{.*}} latency_ns = 13693.2458
    %9 = stablehlo.cbrt %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.tanh{{.*}} latency_ns = 13738.6735
    %10 = stablehlo.tanh %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.power{{.*}} latency_ns = 19681.1524
    %11 = stablehlo.power %x0, %y1 : tensor<4194304xf32>
    // CHECK: stablehlo.logistic{{.*}} latency_ns = 13693.2458
    %12 = stablehlo.logistic %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.sine{{.*}} latency_ns = 13738.6735
    %13 = stablehlo.sine %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.cosine{{.*}} latency_ns = 13738.6735
    %14 = stablehlo.cosine %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.tan{{.*}} latency_ns = 13732.4040
    %15 = stablehlo.tan %x0 : tensor<4194304xf32>
    // CHECK: stablehlo.atan2{{.*}} latency_ns = 19380.2158
    %16 = stablehlo.atan2 %x0, %y1 : tensor<4194304xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16 : tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>
  }
}

// -----

/// A transpose by tiles wastes nothing of a sector; one of too narrow dimensions reads runs of a few bytes.

// CHECK-LABEL: module @transposes
module @transposes {
  func.func @main(%x0: tensor<64x16xf32>, %x1: tensor<64x15xf32>, %x2: tensor<1024x8xf32>, %x3: tensor<1023x8xf32>, %x4: tensor<4096x7xf32>, %x5: tensor<4x262144xf32>, %x6: tensor<262144x4xf32>, %x7: tensor<512x64x8x4xf32>, %x8: tensor<512x64x8x16xf32>, %x9: tensor<4096x7x7xf32>, %x10: tensor<1x4096x1x7xf32>, %x11: tensor<4096x7xbf16>, %x12: tensor<1x65536xf32>) -> (tensor<16x64xf32>, tensor<15x64xf32>, tensor<8x1024xf32>, tensor<8x1023xf32>, tensor<7x4096xf32>, tensor<262144x4xf32>, tensor<4x262144xf32>, tensor<512x8x64x4xf32>, tensor<512x8x64x16xf32>, tensor<4096x7x7xf32>, tensor<7x4096x1x1xf32>, tensor<7x4096xbf16>, tensor<65536x1xf32>) {
    /// Tiles of 16,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %0 = stablehlo.transpose %x0, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
    /// not of 15;
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %1 = stablehlo.transpose %x1, dims = [1, 0] : (tensor<64x15xf32>) -> tensor<15x64xf32>
    /// Tiles of 8 if there are 8,192 elements of both,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %2 = stablehlo.transpose %x2, dims = [1, 0] : (tensor<1024x8xf32>) -> tensor<8x1024xf32>
    /// not of 8,184,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %3 = stablehlo.transpose %x3, dims = [1, 0] : (tensor<1023x8xf32>) -> tensor<8x1023xf32>
    /// nor of 7.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2494.0504{{.*}}tag = "assumed"
    %4 = stablehlo.transpose %x4, dims = [1, 0] : (tensor<4096x7xf32>) -> tensor<7x4096xf32>
    /// Few neighbours in the source: the rest of a sector is used soon.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 5008.3385{{.*}}tag = "assumed"
    %5 = stablehlo.transpose %x5, dims = [1, 0] : (tensor<4x262144xf32>) -> tensor<262144x4xf32>
    /// Few in the result.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 9230.0909{{.*}}tag = "assumed"
    %6 = stablehlo.transpose %x6, dims = [1, 0] : (tensor<262144x4xf32>) -> tensor<4x262144xf32>
    /// Runs of four numbers stay together, which is a part of a sector;
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 9230.0909{{.*}}tag = "assumed"
    %7 = stablehlo.transpose %x7, dims = [0, 2, 1, 3] : (tensor<512x64x8x4xf32>) -> tensor<512x8x64x4xf32>
    /// of 16, a whole one.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 13475.3540{{.*}}tag = "assumed"
    %8 = stablehlo.transpose %x8, dims = [0, 2, 1, 3] : (tensor<512x64x8x16xf32>) -> tensor<512x8x64x16xf32>
    /// As many in both.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 4342.3528{{.*}}tag = "assumed"
    %9 = stablehlo.transpose %x9, dims = [0, 2, 1] : (tensor<4096x7x7xf32>) -> tensor<4096x7x7xf32>
    /// Dimensions of one element do not count.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2494.0504{{.*}}tag = "assumed"
    %10 = stablehlo.transpose %x10, dims = [3, 1, 0, 2] : (tensor<1x4096x1x7xf32>) -> tensor<7x4096x1x1xf32>
    /// Numbers of 16 bits.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %11 = stablehlo.transpose %x11, dims = [1, 0] : (tensor<4096x7xbf16>) -> tensor<7x4096xbf16>
    /// The order of the elements stays, so that nothing moves.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 0.0000
    %12 = stablehlo.transpose %x12, dims = [1, 0] : (tensor<1x65536xf32>) -> tensor<65536x1xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12 : tensor<16x64xf32>, tensor<15x64xf32>, tensor<8x1024xf32>, tensor<8x1023xf32>, tensor<7x4096xf32>, tensor<262144x4xf32>, tensor<4x262144xf32>, tensor<512x8x64x4xf32>, tensor<512x8x64x16xf32>, tensor<4096x7x7xf32>, tensor<7x4096x1x1xf32>, tensor<7x4096xbf16>, tensor<65536x1xf32>
  }
}

// -----

/// A slice reads runs of contiguous elements, of which the last sector is in part unused.

// CHECK-LABEL: module @slices
module @slices {
  func.func @main(%x0: tensor<65536x64xf32>, %i1: tensor<i32>) -> (tensor<65536x4xf32>, tensor<65536x4xf32>, tensor<65536x24xf32>, tensor<32768x64xf32>, tensor<65536x64xf32>) {
    /// Runs of 16 bytes,
    // CHECK: stablehlo.slice{{.*}} latency_ns = 3960.6409
    %0 = stablehlo.slice %x0 [0:65536, 0:4] : (tensor<65536x64xf32>) -> tensor<65536x4xf32>
    /// also from a place that is not known;
    // CHECK: stablehlo.dynamic_slice{{.*}} latency_ns = 3960.6436
    %1 = stablehlo.dynamic_slice %x0, %i1, %i1, sizes = [65536, 4] : (tensor<65536x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x4xf32>
    /// of 96,
    // CHECK: stablehlo.slice{{.*}} latency_ns = 7204.8425
    %2 = stablehlo.slice %x0 [0:65536, 0:24] : (tensor<65536x64xf32>) -> tensor<65536x24xf32>
    /// and of whole rows.
    // CHECK: stablehlo.slice{{.*}} latency_ns = 7939.6229
    %3 = stablehlo.slice %x0 [0:32768, 0:64] : (tensor<65536x64xf32>) -> tensor<32768x64xf32>
    /// All of it.
    // CHECK: stablehlo.slice{{.*}} latency_ns = 0.0000
    %4 = stablehlo.slice %x0 [0:65536, 0:64] : (tensor<65536x64xf32>) -> tensor<65536x64xf32>
    return %0, %1, %2, %3, %4 : tensor<65536x4xf32>, tensor<65536x4xf32>, tensor<65536x24xf32>, tensor<32768x64xf32>, tensor<65536x64xf32>
  }
}

// -----

/// A reduction runs on a core for each block of results; long rows and columns take a second kernel.

// CHECK-LABEL: module @reductions
module @reductions {
  func.func @main(%x0: tensor<256x16384xf32>, %zero1: tensor<f32>, %x2: tensor<256x16385xf32>, %x3: tensor<4x16384xf32>, %x4: tensor<4x65536xf32>, %x5: tensor<8x4x2048xf32>, %x6: tensor<4096x64xf32>, %x7: tensor<4096x65xf32>, %x8: tensor<4097x64xf32>, %x9: tensor<4x256x64xf32>, %x10: tensor<4x1x16384xf32>) -> (tensor<256xf32>, tensor<256xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<64xf32>, tensor<65xf32>, tensor<64xf32>, tensor<4x64xf32>, tensor<4xf32>, tensor<4x16384xf32>) {
    /// Rows of 16,384 numbers on all cores,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 7922.1765{{.*}}tag = "transferred"
    %0 = stablehlo.reduce(%x0 init: %zero1) applies stablehlo.add across dimensions = [1] : (tensor<256x16384xf32>, tensor<f32>) -> tensor<256xf32>
    /// longer ones, which are cut;
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 10228.5193{{.*}}tag = "transferred"
    %1 = stablehlo.reduce(%x2 init: %zero1) applies stablehlo.add across dimensions = [1] : (tensor<256x16385xf32>, tensor<f32>) -> tensor<256xf32>
    /// few rows on few cores, unless they are cut;
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 3341.0101{{.*}}tag = "transferred"
    %2 = stablehlo.reduce(%x3 init: %zero1) applies stablehlo.add across dimensions = [1] : (tensor<4x16384xf32>, tensor<f32>) -> tensor<4xf32>
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 5648.7142{{.*}}tag = "transferred"
    %3 = stablehlo.reduce(%x4 init: %zero1) applies stablehlo.add across dimensions = [1] : (tensor<4x65536xf32>, tensor<f32>) -> tensor<4xf32>
    /// and in several batches.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 3341.0101{{.*}}tag = "transferred"
    %4 = stablehlo.reduce(%x5 init: %zero1) applies stablehlo.add across dimensions = [0, 2] : (tensor<8x4x2048xf32>, tensor<f32>) -> tensor<4xf32>
    /// Columns, 32 to a block,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 10585.1502{{.*}}tag = "transferred"
    %5 = stablehlo.reduce(%x6 init: %zero1) applies stablehlo.add across dimensions = [0] : (tensor<4096x64xf32>, tensor<f32>) -> tensor<64xf32>
    /// one more,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 7912.4701{{.*}}tag = "transferred"
    %6 = stablehlo.reduce(%x7 init: %zero1) applies stablehlo.add across dimensions = [0] : (tensor<4096x65xf32>, tensor<f32>) -> tensor<65xf32>
    /// longer ones in a tree,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 4963.1617{{.*}}tag = "transferred"
    %7 = stablehlo.reduce(%x8 init: %zero1) applies stablehlo.add across dimensions = [0] : (tensor<4097x64xf32>, tensor<f32>) -> tensor<64xf32>
    /// and in batches.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2825.7871{{.*}}tag = "transferred"
    %8 = stablehlo.reduce(%x9 init: %zero1) applies stablehlo.add across dimensions = [1] : (tensor<4x256x64xf32>, tensor<f32>) -> tensor<4x64xf32>
    /// Dimensions of one element do not count,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 3341.0101{{.*}}tag = "transferred"
    %9 = stablehlo.reduce(%x10 init: %zero1) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x16384xf32>, tensor<f32>) -> tensor<4xf32>
    /// nor is one of them reduced.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2480.8104{{.*}}tag = "transferred"
    %10 = stablehlo.reduce(%x10 init: %zero1) applies stablehlo.add across dimensions = [1] : (tensor<4x1x16384xf32>, tensor<f32>) -> tensor<4x16384xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<256xf32>, tensor<256xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<64xf32>, tensor<65xf32>, tensor<64xf32>, tensor<4x64xf32>, tensor<4xf32>, tensor<4x16384xf32>
  }
}

// -----

/// Rows of scores of an attention that is not fused were not measured: four dimensions with 128 queries and keys, or three
/// with as many of both.

// CHECK-LABEL: module @scores
module @scores {
  func.func @main(%x0: tensor<2x4x128x128xf32>, %zero1: tensor<f32>, %x2: tensor<2x4x127x128xf32>, %x3: tensor<2x4x128x127xf32>, %x4: tensor<2x4x128x256xf32>, %x5: tensor<2x128x128xf32>, %x6: tensor<2x128x256xf32>, %x7: tensor<2x4x128xf32>, %x8: tensor<2x128xf32>) -> (tensor<2x4x128xf32>, tensor<2x4x127xf32>, tensor<2x4x128xf32>, tensor<2x4x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x4x128xf32>, tensor<2x4x128x128xf32>, tensor<2x4x128x128xf32>, tensor<2x128x256xf32>) {
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2482.8565{{.*}}tag = "assumed transferred"
    %0 = stablehlo.reduce(%x0 init: %zero1) applies stablehlo.add across dimensions = [3] : (tensor<2x4x128x128xf32>, tensor<f32>) -> tensor<2x4x128xf32>
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2481.4748{{.*}}tag = "transferred"
    %1 = stablehlo.reduce(%x2 init: %zero1) applies stablehlo.add across dimensions = [3] : (tensor<2x4x127x128xf32>, tensor<f32>) -> tensor<2x4x127xf32>
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2481.4854{{.*}}tag = "transferred"
    %2 = stablehlo.reduce(%x3 init: %zero1) applies stablehlo.add across dimensions = [3] : (tensor<2x4x128x127xf32>, tensor<f32>) -> tensor<2x4x128xf32>
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2658.3513{{.*}}tag = "assumed transferred"
    %3 = stablehlo.reduce(%x4 init: %zero1) applies stablehlo.add across dimensions = [3] : (tensor<2x4x128x256xf32>, tensor<f32>) -> tensor<2x4x128xf32>
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed transferred"
    %4 = stablehlo.reduce(%x5 init: %zero1) applies stablehlo.add across dimensions = [2] : (tensor<2x128x128xf32>, tensor<f32>) -> tensor<2x128xf32>
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "transferred"
    %5 = stablehlo.reduce(%x6 init: %zero1) applies stablehlo.add across dimensions = [2] : (tensor<2x128x256xf32>, tensor<f32>) -> tensor<2x128xf32>
    /// Only rows,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2567.7820{{.*}}tag = "transferred"
    %6 = stablehlo.reduce(%x0 init: %zero1) applies stablehlo.add across dimensions = [2] : (tensor<2x4x128x128xf32>, tensor<f32>) -> tensor<2x4x128xf32>
    /// or what is combined with them.
    // CHECK: stablehlo.broadcast_in_dim{{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %7 = stablehlo.broadcast_in_dim %x7, dims = [0, 1, 2] : (tensor<2x4x128xf32>) -> tensor<2x4x128x128xf32>
    // CHECK: stablehlo.broadcast_in_dim{{.*}} latency_ns = 2.450000e+03
    %8 = stablehlo.broadcast_in_dim %x7, dims = [0, 1, 3] : (tensor<2x4x128xf32>) -> tensor<2x4x128x128xf32>
    // CHECK: stablehlo.broadcast_in_dim{{.*}} latency_ns = 2.450000e+03
    %9 = stablehlo.broadcast_in_dim %x8, dims = [0, 1] : (tensor<2x128xf32>) -> tensor<2x128x256xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2x4x128xf32>, tensor<2x4x127xf32>, tensor<2x4x128xf32>, tensor<2x4x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x4x128xf32>, tensor<2x4x128x128xf32>, tensor<2x4x128x128xf32>, tensor<2x128x256xf32>
  }
}

// -----

/// A kernel that keeps rows on the chip has the time of a softmax or of a normalisation.

// CHECK-LABEL: module @rows
module @rows {
  func.func @main(%x0: tensor<4096x1024xf32>, %g1: tensor<1024xf32>, %h2: tensor<1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
    /// A softmax that one kernel of Triton computes,
    // CHECK: }){{.*}} latency_ns = 13192.4022{{.*}}tag = "transferred"
    %0 = "mhlo.fusion"(%x0) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<4096x1024xf32>):
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %e = stablehlo.exponential %x_in : tensor<4096x1024xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1024xf32>
      %r = stablehlo.divide %e, %b : tensor<4096x1024xf32>
      mhlo.return %r : tensor<4096x1024xf32>
    }) : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
    /// a loop that reduces,
    // CHECK: }){{.*}} latency_ns = 13675.5934{{.*}}tag = "transferred"
    %1 = "mhlo.fusion"(%x0) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
    ^bb0(%x_in: tensor<4096x1024xf32>):
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %e = stablehlo.exponential %x_in : tensor<4096x1024xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1024xf32>
      %r = stablehlo.divide %e, %b : tensor<4096x1024xf32>
      mhlo.return %r : tensor<4096x1024xf32>
    }) : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
    /// columns,
    // CHECK: }){{.*}} latency_ns = 19005.9617{{.*}}tag = "transferred"
    %2 = "mhlo.fusion"(%x0) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<4096x1024xf32>):
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %e = stablehlo.exponential %x_in : tensor<4096x1024xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<1024xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<1024xf32>) -> tensor<4096x1024xf32>
      %r = stablehlo.divide %e, %b : tensor<4096x1024xf32>
      mhlo.return %r : tensor<4096x1024xf32>
    }) : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
    /// a result for each row,
    // CHECK: }){{.*}} latency_ns = 7989.9716{{.*}}tag = "transferred"
    %3 = "mhlo.fusion"(%x0) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<4096x1024xf32>):
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %e = stablehlo.exponential %x_in : tensor<4096x1024xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
      mhlo.return %s : tensor<4096xf32>
    }) : (tensor<4096x1024xf32>) -> tensor<4096xf32>
    /// a normalisation that cuDNN computes,
    // CHECK: stablehlo.custom_call{{.*}} latency_ns = 16498.8888{{.*}}tag = "extrapolated transferred"
    %4 = stablehlo.custom_call @__cudnn$norm(%x0, %g1, %h2) : (tensor<4096x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<4096x1024xf32>
    /// and a fusion in a fusion, whose instructions count.
    // CHECK: }){{.*}} latency_ns = 13738.6735
    %5 = "mhlo.fusion"(%x0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<4096x1024xf32>):
      %n = "mhlo.fusion"(%x_in) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%a: tensor<4096x1024xf32>):
        %t = stablehlo.sine %a : tensor<4096x1024xf32>
        mhlo.return %t : tensor<4096x1024xf32>
      }) : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
      mhlo.return %n : tensor<4096x1024xf32>
    }) : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
    return %0, %1, %2, %3, %4, %5 : tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>
  }
}

// -----

/// A kernel visits what it updates of a buffer, and all of what it computes.

// CHECK-LABEL: module @updates
module @updates {
  func.func @main(%x0: tensor<65536x64xf32>, %y1: tensor<16x64xf32>, %i2: tensor<i32>, %j3: tensor<16x1xi32>) -> (tensor<65536x64xf32>, tensor<65536x64xf32>, tensor<4194304xf32>, tensor<65536x64xf32>, tensor<65536x64xf32>, tensor<16x64xf32>, tensor<65536x64xf32>, tensor<65536x64xf32>) {
    // CHECK: stablehlo.dynamic_update_slice{{.*}} latency_ns = 2.450000e+03
    %0 = stablehlo.dynamic_update_slice %x0, %y1, %i2, %i2 : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
    /// In a fusion,
    // CHECK: }){{.*}} latency_ns = 2.450000e+03
    %1 = "mhlo.fusion"(%x0, %y1, %i2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<65536x64xf32>, %y_in: tensor<16x64xf32>, %i_in: tensor<i32>):
      %u = stablehlo.dynamic_update_slice %x_in, %y_in, %i_in, %i_in : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
      mhlo.return %u : tensor<65536x64xf32>
    }) : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>) -> tensor<65536x64xf32>
    /// through a view,
    // CHECK: }){{.*}} latency_ns = 2.450000e+03
    %2 = "mhlo.fusion"(%x0, %y1, %i2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<65536x64xf32>, %y_in: tensor<16x64xf32>, %i_in: tensor<i32>):
      %u = stablehlo.dynamic_update_slice %x_in, %y_in, %i_in, %i_in : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
      %v = mhlo.bitcast %u : (tensor<65536x64xf32>) -> tensor<4194304xf32>
      mhlo.return %v : tensor<4194304xf32>
    }) : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>) -> tensor<4194304xf32>
    /// by a scatter,
    // CHECK: }){{.*}} latency_ns = 2.450000e+03{{.*}}tag = "assumed"
    %3 = "mhlo.fusion"(%x0, %j3, %y1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<65536x64xf32>, %j_in: tensor<16x1xi32>, %y_in: tensor<16x64xf32>):
      %u = "stablehlo.scatter"(%x_in, %j_in, %y_in) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }) : (tensor<65536x64xf32>, tensor<16x1xi32>, tensor<16x64xf32>) -> tensor<65536x64xf32>
      mhlo.return %u : tensor<65536x64xf32>
    }) : (tensor<65536x64xf32>, tensor<16x1xi32>, tensor<16x64xf32>) -> tensor<65536x64xf32>
    /// beside a result that is computed,
    // CHECK: }){{.*}} latency_ns = 2.450000e+03
    %4:2 = "mhlo.fusion"(%x0, %y1, %i2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<65536x64xf32>, %y_in: tensor<16x64xf32>, %i_in: tensor<i32>):
      %u = stablehlo.dynamic_update_slice %x_in, %y_in, %i_in, %i_in : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
      %t = stablehlo.sine %y_in : tensor<16x64xf32>
      mhlo.return %u, %t : tensor<65536x64xf32>, tensor<16x64xf32>
    }) : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>) -> (tensor<65536x64xf32>, tensor<16x64xf32>)
    /// in a buffer that the kernel computes,
    // CHECK: }){{.*}} latency_ns = 13740.0491
    %5 = "mhlo.fusion"(%x0, %y1, %i2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<65536x64xf32>, %y_in: tensor<16x64xf32>, %i_in: tensor<i32>):
      %t = stablehlo.sine %x_in : tensor<65536x64xf32>
      %u = stablehlo.dynamic_update_slice %t, %y_in, %i_in, %i_in : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
      mhlo.return %u : tensor<65536x64xf32>
    }) : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>) -> tensor<65536x64xf32>
    /// and with ops that follow it.
    // CHECK: }){{.*}} latency_ns = 13694.6214
    %6 = "mhlo.fusion"(%x0, %y1, %i2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%x_in: tensor<65536x64xf32>, %y_in: tensor<16x64xf32>, %i_in: tensor<i32>):
      %u = stablehlo.dynamic_update_slice %x_in, %y_in, %i_in, %i_in : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
      %t = stablehlo.negate %u : tensor<65536x64xf32>
      mhlo.return %t : tensor<65536x64xf32>
    }) : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>) -> tensor<65536x64xf32>
    return %0, %1, %2, %3, %4#0, %4#1, %5, %6 : tensor<65536x64xf32>, tensor<65536x64xf32>, tensor<4194304xf32>, tensor<65536x64xf32>, tensor<65536x64xf32>, tensor<16x64xf32>, tensor<65536x64xf32>, tensor<65536x64xf32>
  }
}

// -----

/// A library multiplies signed bytes to words or numbers. Other integers are computed in loops, slower where neighbours read
/// other rows.

// CHECK-LABEL: module @integers
module @integers {
  func.func @main(%x0: tensor<128x256xi8>, %y1: tensor<256x512xi8>, %x2: tensor<128x256xi16>, %y3: tensor<256x512xi16>, %y4: tensor<512x256xi16>, %y5: tensor<256x512xi32>, %y6: tensor<256x512xf32>, %x7: tensor<128x256xbf16>, %y8: tensor<256x512xbf16>) -> (tensor<128x512xi32>, tensor<128x512xf32>, tensor<128x512xi8>, tensor<128x512xi32>, tensor<128x512xi32>, tensor<128x512xi32>, tensor<128x512xf32>, tensor<128x512xi32>, tensor<128x512xbf16>) {
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 2715.1678{{.*}}tag = "transferred"
    %0 = stablehlo.dot_general %x0, %y1, contracting_dims = [1] x [0] : (tensor<128x256xi8>, tensor<256x512xi8>) -> tensor<128x512xi32>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 2715.1678{{.*}}tag = "transferred"
    %1 = stablehlo.dot_general %x0, %y1, contracting_dims = [1] x [0] : (tensor<128x256xi8>, tensor<256x512xi8>) -> tensor<128x512xf32>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 6202.3360{{.*}}tag = "assumed"
    %2 = stablehlo.dot_general %x0, %y1, contracting_dims = [1] x [0] : (tensor<128x256xi8>, tensor<256x512xi8>) -> tensor<128x512xi8>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 6208.3828{{.*}}tag = "assumed"
    %3 = stablehlo.dot_general %x2, %y3, contracting_dims = [1] x [0] : (tensor<128x256xi16>, tensor<256x512xi16>) -> tensor<128x512xi32>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 9113.9777{{.*}}tag = "assumed"
    %4 = stablehlo.dot_general %x2, %y4, contracting_dims = [1] x [1] : (tensor<128x256xi16>, tensor<512x256xi16>) -> tensor<128x512xi32>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 6212.2308{{.*}}tag = "assumed"
    %5 = stablehlo.dot_general %x0, %y5, contracting_dims = [1] x [0] : (tensor<128x256xi8>, tensor<256x512xi32>) -> tensor<128x512xi32>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 3319.8637{{.*}}tag = "transferred"
    %6 = stablehlo.dot_general %x0, %y6, contracting_dims = [1] x [0] : (tensor<128x256xi8>, tensor<256x512xf32>) -> tensor<128x512xf32>
    // CHECK: stablehlo.dot{{.*}} latency_ns = 6208.3828{{.*}}tag = "assumed"
    %7 = stablehlo.dot %x2, %y3 : (tensor<128x256xi16>, tensor<256x512xi16>) -> tensor<128x512xi32>
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 2936.1913
    %8 = stablehlo.dot_general %x7, %y8, contracting_dims = [1] x [0] : (tensor<128x256xbf16>, tensor<256x512xbf16>) -> tensor<128x512xbf16>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<128x512xi32>, tensor<128x512xf32>, tensor<128x512xi8>, tensor<128x512xi32>, tensor<128x512xi32>, tensor<128x512xi32>, tensor<128x512xf32>, tensor<128x512xi32>, tensor<128x512xbf16>
  }
}
