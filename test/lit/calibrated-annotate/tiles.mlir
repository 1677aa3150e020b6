// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB --split-input-file | filecheck %s

/// What changes the time of a kernel beside its operations and bytes, each large enough that it shows.

/// A transpose uses tiles in shared memory if both dimensions that it exchanges are wide enough; in other cases it reads
/// sectors for a few bytes.

// CHECK-LABEL: module @tiles
module @tiles {
  func.func @main(%x0: tensor<4096x64x16xf32>, %x1: tensor<4096x64x15xf32>, %x2: tensor<64x1024x8xf32>, %x3: tensor<64x1023x8xf32>, %x4: tensor<64x2048x7xf32>, %x5: tensor<64x7x2048xf32>, %x6: tensor<4096x64x15xbf16>, %x7: tensor<4096x64x7x4xf32>, %x8: tensor<4096x64x7x16xf32>) -> (tensor<4096x16x64xf32>, tensor<4096x15x64xf32>, tensor<64x8x1024xf32>, tensor<64x8x1023xf32>, tensor<64x7x2048xf32>, tensor<64x2048x7xf32>, tensor<4096x15x64xbf16>, tensor<4096x7x64x4xf32>, tensor<4096x7x64x16xf32>) {
    /// Tiles of 16,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 13475.3540
    %0 = stablehlo.transpose %x0, dims = [0, 2, 1] : (tensor<4096x64x16xf32>) -> tensor<4096x16x64xf32>
    /// not of 15;
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 86650.4368
    %1 = stablehlo.transpose %x1, dims = [0, 2, 1] : (tensor<4096x64x15xf32>) -> tensor<4096x15x64xf32>
    /// tiles of 8 if there are 8,192 elements of both,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 3597.1692
    %2 = stablehlo.transpose %x2, dims = [0, 2, 1] : (tensor<64x1024x8xf32>) -> tensor<64x8x1024xf32>
    /// not of 8,184,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 8516.3590
    %3 = stablehlo.transpose %x3, dims = [0, 2, 1] : (tensor<64x1023x8xf32>) -> tensor<64x8x1023xf32>
    /// and not of 7.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 12043.6129
    %4 = stablehlo.transpose %x4, dims = [0, 2, 1] : (tensor<64x2048x7xf32>) -> tensor<64x7x2048xf32>
    /// The other way round, the rest of a sector is in the cache.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 4655.5461
    %5 = stablehlo.transpose %x5, dims = [0, 2, 1] : (tensor<64x7x2048xf32>) -> tensor<64x2048x7xf32>
    /// Numbers of 16 bits waste more of a sector, at most what lies between two results.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 44432.9126
    %6 = stablehlo.transpose %x6, dims = [0, 2, 1] : (tensor<4096x64x15xbf16>) -> tensor<4096x15x64xbf16>
    /// Runs of 16 bytes,
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 51494.6365
    %7 = stablehlo.transpose %x7, dims = [0, 2, 1, 3] : (tensor<4096x64x7x4xf32>) -> tensor<4096x7x64x4xf32>
    /// and of 64, which are whole sectors.
    // CHECK: stablehlo.transpose{{.*}} latency_ns = 81211.4782
    %8 = stablehlo.transpose %x8, dims = [0, 2, 1, 3] : (tensor<4096x64x7x16xf32>) -> tensor<4096x7x64x16xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4096x16x64xf32>, tensor<4096x15x64xf32>, tensor<64x8x1024xf32>, tensor<64x8x1023xf32>, tensor<64x7x2048xf32>, tensor<64x2048x7xf32>, tensor<4096x15x64xbf16>, tensor<4096x7x64x4xf32>, tensor<4096x7x64x16xf32>
  }
}

// -----

/// The threads of a concatenation share its largest operand, each as many elements as divide all extents.

// CHECK-LABEL: module @concatenations
module @concatenations {
  func.func @main(%x0: tensor<8192x2047xbf16>, %x1: tensor<8192x2049xbf16>, %x2: tensor<8192x2046xbf16>, %x3: tensor<8192x2050xbf16>, %x4: tensor<8192x2048xbf16>, %x5: tensor<8192x2048xbf16>, %x6: tensor<2047x8192xbf16>, %x7: tensor<2049x8192xbf16>, %x8: tensor<8192x1023xbf16>, %x9: tensor<8192x1023xbf16>, %x10: tensor<8192x1023xbf16>, %x11: tensor<8192x1023xbf16>, %x12: tensor<8192x2047xbf16>, %x13: tensor<8192x2049xbf16>) -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<4096x8192xbf16>, tensor<8192x4092xbf16>, tensor<8192x4096xbf16>, tensor<8192x4096xbf16>) {
    /// One each,
    // CHECK: stablehlo.concatenate{{.*}} latency_ns = 84233.1471
    %0 = stablehlo.concatenate %x0, %x1, dim = 1 : (tensor<8192x2047xbf16>, tensor<8192x2049xbf16>) -> tensor<8192x4096xbf16>
    /// two,
    // CHECK: stablehlo.concatenate{{.*}} latency_ns = 49213.8881
    %1 = stablehlo.concatenate %x2, %x3, dim = 1 : (tensor<8192x2046xbf16>, tensor<8192x2050xbf16>) -> tensor<8192x4096xbf16>
    /// and four at most.
    // CHECK: stablehlo.concatenate{{.*}} latency_ns = 48214.9834
    %2 = stablehlo.concatenate %x4, %x5, dim = 1 : (tensor<8192x2048xbf16>, tensor<8192x2048xbf16>) -> tensor<8192x4096xbf16>
    /// The extents are those of the dimension that is joined.
    // CHECK: stablehlo.concatenate{{.*}} latency_ns = 84233.1471
    %3 = stablehlo.concatenate %x6, %x7, dim = 0 : (tensor<2047x8192xbf16>, tensor<2049x8192xbf16>) -> tensor<4096x8192xbf16>
    /// Of four operands, a thread computes an element of each.
    // CHECK: stablehlo.concatenate{{.*}} latency_ns = 49166.0171
    %4 = stablehlo.concatenate %x8, %x9, %x10, %x11, dim = 1 : (tensor<8192x1023xbf16>, tensor<8192x1023xbf16>, tensor<8192x1023xbf16>, tensor<8192x1023xbf16>) -> tensor<8192x4092xbf16>
    /// A kernel of several results is no concatenation, and computes four of each in a thread.
    // CHECK: }){{.*}} latency_ns = 71727.9538
    %5:2 = "mhlo.fusion"(%x12, %x13) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<8192x2047xbf16>, %b: tensor<8192x2049xbf16>):
      %c = stablehlo.concatenate %a, %b, dim = 1 : (tensor<8192x2047xbf16>, tensor<8192x2049xbf16>) -> tensor<8192x4096xbf16>
      %d = stablehlo.negate %c : tensor<8192x4096xbf16>
      mhlo.return %c, %d : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>
    }) : (tensor<8192x2047xbf16>, tensor<8192x2049xbf16>) -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>)
    return %0, %1, %2, %3, %4, %5#0, %5#1 : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<4096x8192xbf16>, tensor<8192x4092xbf16>, tensor<8192x4096xbf16>, tensor<8192x4096xbf16>
  }
}

// -----

/// A kernel that reduces columns has a block for 32 of them, and a tree for more than 4,096 rows.

// CHECK-LABEL: module @columns
module @columns {
  func.func @main(%x0: tensor<4096x32xf32>, %x1: tensor<4096x33xf32>, %x2: tensor<4096x64xf32>, %x3: tensor<4x4096x32xf32>, %x4: tensor<64x1024x32xf32>, %x5: tensor<64x32x128xf32>, %x6: tensor<4097x32xf32>, %x7: tensor<16384x32xf32>, %x8: tensor<2x16384xf32>, %x9: tensor<2x16385xf32>, %x10: tensor<2x32769xf32>, %zero: tensor<f32>) -> (tensor<32xf32>, tensor<33xf32>, tensor<64xf32>, tensor<4x32xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<32xf32>, tensor<32xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    /// A block of 32 columns,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 10584.0062
    %0 = stablehlo.reduce(%x0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096x32xf32>, tensor<f32>) -> tensor<32xf32>
    /// two of 33,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 6574.9521
    %1 = stablehlo.reduce(%x1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096x33xf32>, tensor<f32>) -> tensor<33xf32>
    /// and two of 64.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 10585.1502
    %2 = stablehlo.reduce(%x2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096x64xf32>, tensor<f32>) -> tensor<64xf32>
    /// Batches have blocks of their own,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 10587.4854
    %3 = stablehlo.reduce(%x3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4096x32xf32>, tensor<f32>) -> tensor<4x32xf32>
    /// and are no rows.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 5116.6395
    %4 = stablehlo.reduce(%x4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024x32xf32>, tensor<f32>) -> tensor<64x32xf32>
    /// What is reduced before and after the columns is rows.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 2662.4323
    %5 = stablehlo.reduce(%x5 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x32x128xf32>, tensor<f32>) -> tensor<32x128xf32>
    /// A tree of 64 rows a block, and a second kernel: 4,097 rows,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 4.900000e+03
    %6 = stablehlo.reduce(%x6 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4097x32xf32>, tensor<f32>) -> tensor<32xf32>
    /// and 16,384.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 5314.0232
    %7 = stablehlo.reduce(%x7 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16384x32xf32>, tensor<f32>) -> tensor<32xf32>
    /// Rows of 16,384,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 3340.7320
    %8 = stablehlo.reduce(%x8 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x16384xf32>, tensor<f32>) -> tensor<2xf32>
    /// which a second kernel adds if there is one number more,
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 5129.5445
    %9 = stablehlo.reduce(%x9 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x16385xf32>, tensor<f32>) -> tensor<2xf32>
    /// or of two pieces.
    // CHECK: stablehlo.reduce{{.*}} latency_ns = 5302.2026
    %10 = stablehlo.reduce(%x10 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x32769xf32>, tensor<f32>) -> tensor<2xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<32xf32>, tensor<33xf32>, tensor<64xf32>, tensor<4x32xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<32xf32>, tensor<32xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}

// -----

/// Libraries multiply bytes into i32 and f32; XLA computes other products of integers in loops.

// CHECK-LABEL: module @integers
module @integers {
  func.func @main(%x0: tensor<512x512xi8>, %x1: tensor<512x512xi8>, %x2: tensor<512x512xi8>, %x3: tensor<512x512xi8>, %x4: tensor<512x512xi8>, %x5: tensor<512x512xi8>, %x6: tensor<512x512xui8>, %x7: tensor<512x512xui8>, %x8: tensor<512x512xi8>, %x9: tensor<512x512xi16>, %x10: tensor<512x512xi16>, %x11: tensor<512x512xi16>, %x12: tensor<512x512xi32>, %x13: tensor<512x512xi32>, %x14: tensor<512x512xi32>, %x15: tensor<512x512xi32>, %x16: tensor<512x512xf32>, %x17: tensor<512x512xi8>, %x18: tensor<8x32x32x64xi32>, %x19: tensor<3x3x64x64xi32>) -> (tensor<512x512xi32>, tensor<512x512xf32>, tensor<512x512xi8>, tensor<512x512xi32>, tensor<512x512xi32>, tensor<512x512xf32>, tensor<512x512xi32>, tensor<512x512xi32>, tensor<512x512xf32>, tensor<8x30x30x64xi32>) {
    /// Of bytes,
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 3336.5594
    %0 = stablehlo.dot_general %x0, %x1, contracting_dims = [1] x [0] : (tensor<512x512xi8>, tensor<512x512xi8>) -> tensor<512x512xi32>
    /// also into f32,
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 3336.5594
    %1 = stablehlo.dot_general %x2, %x3, contracting_dims = [1] x [0] : (tensor<512x512xi8>, tensor<512x512xi8>) -> tensor<512x512xf32>
    /// not into bytes,
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 34299.0980
    %2 = stablehlo.dot_general %x4, %x5, contracting_dims = [1] x [0] : (tensor<512x512xi8>, tensor<512x512xi8>) -> tensor<512x512xi8>
    /// of bytes without a sign,
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 34312.2910
    %3 = stablehlo.dot_general %x6, %x7, contracting_dims = [1] x [0] : (tensor<512x512xui8>, tensor<512x512xui8>) -> tensor<512x512xi32>
    /// of one type with another,
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 34316.6886
    %4 = stablehlo.dot_general %x8, %x9, contracting_dims = [1] x [0] : (tensor<512x512xi8>, tensor<512x512xi16>) -> tensor<512x512xi32>
    /// of 16 bits into f32,
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 34321.0863
    %5 = stablehlo.dot_general %x10, %x11, contracting_dims = [1] x [0] : (tensor<512x512xi16>, tensor<512x512xi16>) -> tensor<512x512xf32>
    /// or of 32 bits.
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 34338.6769
    %6 = stablehlo.dot_general %x12, %x13, contracting_dims = [1] x [0] : (tensor<512x512xi32>, tensor<512x512xi32>) -> tensor<512x512xi32>
    /// What a loop contracts last in the right operand is read in strides.
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 57583.4357
    %7 = stablehlo.dot_general %x14, %x15, contracting_dims = [1] x [1] : (tensor<512x512xi32>, tensor<512x512xi32>) -> tensor<512x512xi32>
    /// One operand of floats makes a product of floats.
    // CHECK: stablehlo.dot_general{{.*}} latency_ns = 4560.3545
    %8 = stablehlo.dot_general %x16, %x17, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xi8>) -> tensor<512x512xf32>
    /// Convolutions of integers are none of loops.
    // CHECK: stablehlo.convolution{{.*}} latency_ns = 24946.4743
    %9 = stablehlo.convolution(%x18, %x19) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xi32>, tensor<3x3x64x64xi32>) -> tensor<8x30x30x64xi32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<512x512xi32>, tensor<512x512xf32>, tensor<512x512xi8>, tensor<512x512xi32>, tensor<512x512xi32>, tensor<512x512xf32>, tensor<512x512xi32>, tensor<512x512xi32>, tensor<512x512xf32>, tensor<8x30x30x64xi32>
  }
}

// -----

/// The elements of an update that bound a kernel are those of what is written, of the other results all.

// CHECK-LABEL: module @updates
module @updates {
  func.func @main(%x0: tensor<8192x8192xbf16>, %x1: tensor<4096x8192xbf16>, %x2: tensor<i32>, %x3: tensor<8192x8192xbf16>, %x4: tensor<4096x8192xbf16>, %x5: tensor<i32>, %x6: tensor<65536x64xf32>, %x7: tensor<16x64xf32>, %x8: tensor<i32>) -> (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>, tensor<65536x64xf32>, tensor<16384x16x64xf32>, tensor<16x64xf32>) {
    /// Half of a buffer,
    // CHECK: stablehlo.dynamic_update_slice{{.*}} latency_ns = 49211.9436
    %0 = stablehlo.dynamic_update_slice %x0, %x1, %x2, %x2 : (tensor<8192x8192xbf16>, tensor<4096x8192xbf16>, tensor<i32>, tensor<i32>) -> tensor<8192x8192xbf16>
    /// in a fusion,
    // CHECK: }){{.*}} latency_ns = 49211.9422
    %1 = "mhlo.fusion"(%x3, %x4, %x5) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<8192x8192xbf16>, %b: tensor<4096x8192xbf16>, %c: tensor<i32>):
      %u = stablehlo.dynamic_update_slice %a, %b, %c, %c : (tensor<8192x8192xbf16>, tensor<4096x8192xbf16>, tensor<i32>, tensor<i32>) -> tensor<8192x8192xbf16>
      mhlo.return %u : tensor<8192x8192xbf16>
    }) : (tensor<8192x8192xbf16>, tensor<4096x8192xbf16>, tensor<i32>) -> tensor<8192x8192xbf16>
    /// beside what is repeated from few elements.
    // CHECK: }){{.*}} latency_ns = 25703.0946
    %2:3 = "mhlo.fusion"(%x6, %x7, %x8) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<65536x64xf32>, %b: tensor<16x64xf32>, %c: tensor<i32>):
      %u = stablehlo.dynamic_update_slice %a, %b, %c, %c : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<65536x64xf32>
      %w = stablehlo.broadcast_in_dim %b, dims = [1, 2] : (tensor<16x64xf32>) -> tensor<16384x16x64xf32>
      mhlo.return %u, %w, %b : tensor<65536x64xf32>, tensor<16384x16x64xf32>, tensor<16x64xf32>
    }) : (tensor<65536x64xf32>, tensor<16x64xf32>, tensor<i32>) -> (tensor<65536x64xf32>, tensor<16384x16x64xf32>, tensor<16x64xf32>)
    return %0, %1, %2#0, %2#1, %2#2 : tensor<8192x8192xbf16>, tensor<8192x8192xbf16>, tensor<65536x64xf32>, tensor<16384x16x64xf32>, tensor<16x64xf32>
  }
}

// -----

/// More that counts by its type and layout.

// CHECK-LABEL: module @others
module @others {
  func.func @main(%x0: tensor<4194304xcomplex<f32>>, %x1: tensor<1048576x64xi8>, %x2: tensor<65536x7xf32>, %x3: tensor<65536x7xf32>) -> (tensor<4194304xcomplex<f32>>, tensor<1048576x1xi8>, tensor<7x65536xf32>, tensor<7x65536xf32>) {
    /// A function of complex numbers takes twice the instructions.
    // CHECK: stablehlo.exponential{{.*}} latency_ns = 24952.7934
    %0 = stablehlo.exponential %x0 : tensor<4194304xcomplex<f32>>
    /// One byte of each sector is used.
    // CHECK: stablehlo.slice{{.*}} latency_ns = 25116.1354
    %1 = stablehlo.slice %x1 [0:1048576, 0:1] : (tensor<1048576x64xi8>) -> tensor<1048576x1xi8>
    /// A transpose in a fusion wastes as much as alone,
    // CHECK: }){{.*}} latency_ns = 7115.4921
    %2 = "mhlo.fusion"(%x2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<65536x7xf32>):
      %n = stablehlo.negate %a : tensor<65536x7xf32>
      %r = stablehlo.transpose %n, dims = [1, 0] : (tensor<65536x7xf32>) -> tensor<7x65536xf32>
      mhlo.return %r : tensor<7x65536xf32>
    }) : (tensor<65536x7xf32>) -> tensor<7x65536xf32>
    /// but not one that the layout of its result undoes.
    // CHECK: }){{.*}} latency_ns = 3444.6050
    %3 = "mhlo.fusion"(%x3) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<65536x7xf32>):
      %n = stablehlo.negate %a : tensor<65536x7xf32>
      %r = stablehlo.transpose %n, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>} : (tensor<65536x7xf32>) -> tensor<7x65536xf32>
      mhlo.return %r : tensor<7x65536xf32>
    }) : (tensor<65536x7xf32>) -> tensor<7x65536xf32>
    return %0, %1, %2, %3 : tensor<4194304xcomplex<f32>>, tensor<1048576x1xi8>, tensor<7x65536xf32>, tensor<7x65536xf32>
  }
}
