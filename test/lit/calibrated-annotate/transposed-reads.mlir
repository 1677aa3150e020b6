// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB --keep-going --split-input-file | filecheck %s

/// What a kernel reads in another order wastes, and in how many blocks it reduces. The numbers are those of the constants of the node, and
/// change with them.

// CHECK-LABEL: module @reads
module @reads {
  func.func @main(%x0: tensor<1048576x3xf32>, %x1: tensor<3x1048576xf32>, %x2: tensor<3x1048576xf32>, %x3: tensor<1048576x3xf32>, %x4: tensor<1048576x1x3xf32>, %x5: tensor<3x1x1048576xf32>, %x6: tensor<1048576x3x1xf32>, %x7: tensor<3x1048576x1xf32>, %x8: tensor<1048576x3x2xf32>, %x9: tensor<3x1048576x2xf32>, %x10: tensor<1048576x3x8xf32>, %x11: tensor<3x1048576x8xf32>, %x12: tensor<1048576x3x16xf32>, %x13: tensor<3x1048576x16xf32>, %x14: tensor<1x1048576x3xf32>, %x15: tensor<1x1048576x3xf32>, %zero: tensor<f32>, %x16: tensor<8x1048576xf32>, %x17: tensor<1048576x8xf32>, %x18: tensor<64x2048x64xf32>, %x19: tensor<8x1x1048576xf32>, %x20: tensor<4096x1x4096xf32>, %x21: tensor<16777216xf32>, %x22: tensor<1x16777216x1xf32>) -> (tensor<3x1048576xf32>, tensor<1048576x3xf32>, tensor<3x1x1048576xf32>, tensor<3x1048576x1xf32>, tensor<3x1048576x2xf32>, tensor<3x1048576x8xf32>, tensor<3x1048576x16xf32>, tensor<1x1048576x3xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2048xf32>, tensor<8xf32>, tensor<4096x4096xf32>, tensor<f32>, tensor<1x1xf32>) {
    /// Tiles of narrow dimensions leave parts of sectors unused,
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 37894.8709{{.*}} tag = "assumed"
    %0 = "mhlo.fusion"(%x0, %x1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1048576x3xf32>, %b: tensor<3x1048576xf32>): %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<1048576x3xf32>) -> tensor<3x1048576xf32> %r = stablehlo.add %t, %b : tensor<3x1048576xf32> mhlo.return %r : tensor<3x1048576xf32> }) : (tensor<1048576x3xf32>, tensor<3x1048576xf32>) -> tensor<3x1048576xf32>
    /// not where the results that use them are computed soon.
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 23752.2809{{.*}} tag = "assumed"
    %1 = "mhlo.fusion"(%x2, %x3) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<3x1048576xf32>, %b: tensor<1048576x3xf32>): %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x1048576xf32>) -> tensor<1048576x3xf32> %r = stablehlo.add %t, %b : tensor<1048576x3xf32> mhlo.return %r : tensor<1048576x3xf32> }) : (tensor<3x1048576xf32>, tensor<1048576x3xf32>) -> tensor<1048576x3xf32>
    /// Extents of one change nothing,
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 37894.8709{{.*}} tag = "assumed"
    %2 = "mhlo.fusion"(%x4, %x5) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1048576x1x3xf32>, %b: tensor<3x1x1048576xf32>): %t = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<1048576x1x3xf32>) -> tensor<3x1x1048576xf32> %r = stablehlo.add %t, %b : tensor<3x1x1048576xf32> mhlo.return %r : tensor<3x1x1048576xf32> }) : (tensor<1048576x1x3xf32>, tensor<3x1x1048576xf32>) -> tensor<3x1x1048576xf32>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 37894.8709{{.*}} tag = "assumed"
    %3 = "mhlo.fusion"(%x6, %x7) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1048576x3x1xf32>, %b: tensor<3x1048576x1xf32>): %t = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<1048576x3x1xf32>) -> tensor<3x1048576x1xf32> %r = stablehlo.add %t, %b : tensor<3x1048576x1xf32> mhlo.return %r : tensor<3x1048576x1xf32> }) : (tensor<1048576x3x1xf32>, tensor<3x1048576x1xf32>) -> tensor<3x1048576x1xf32>
    /// and what stays in its place is read in one piece, which may be a sector.
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 73299.7419{{.*}} tag = "assumed"
    %4 = "mhlo.fusion"(%x8, %x9) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1048576x3x2xf32>, %b: tensor<3x1048576x2xf32>): %t = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<1048576x3x2xf32>) -> tensor<3x1048576x2xf32> %r = stablehlo.add %t, %b : tensor<3x1048576x2xf32> mhlo.return %r : tensor<3x1048576x2xf32> }) : (tensor<1048576x3x2xf32>, tensor<3x1048576x2xf32>) -> tensor<3x1048576x2xf32>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 229158.6076{{.*}} tag = "assumed"
    %5 = "mhlo.fusion"(%x10, %x11) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1048576x3x8xf32>, %b: tensor<3x1048576x8xf32>): %t = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<1048576x3x8xf32>) -> tensor<3x1048576x8xf32> %r = stablehlo.add %t, %b : tensor<3x1048576x8xf32> mhlo.return %r : tensor<3x1048576x8xf32> }) : (tensor<1048576x3x8xf32>, tensor<3x1048576x8xf32>) -> tensor<3x1048576x8xf32>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 342686.4946{{.*}} tag = "assumed"
    %6 = "mhlo.fusion"(%x12, %x13) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1048576x3x16xf32>, %b: tensor<3x1048576x16xf32>): %t = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<1048576x3x16xf32>) -> tensor<3x1048576x16xf32> %r = stablehlo.add %t, %b : tensor<3x1048576x16xf32> mhlo.return %r : tensor<3x1048576x16xf32> }) : (tensor<1048576x3x16xf32>, tensor<3x1048576x16xf32>) -> tensor<3x1048576x16xf32>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 23966.3818{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %7 = "mhlo.fusion"(%x14, %x15) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<1x1048576x3xf32>, %b: tensor<1x1048576x3xf32>): %t = stablehlo.transpose %a, dims = [0, 1, 2] : (tensor<1x1048576x3xf32>) -> tensor<1x1048576x3xf32> %r = stablehlo.add %t, %b : tensor<1x1048576x3xf32> mhlo.return %r : tensor<1x1048576x3xf32> }) : (tensor<1x1048576x3xf32>, tensor<1x1048576x3xf32>) -> tensor<1x1048576x3xf32>
    /// Reductions of rows, of columns, of both, and over extents of one.
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 23748.0128{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %8 = stablehlo.reduce(%x16 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x1048576xf32>, tensor<f32>) -> tensor<8xf32>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 23748.0128{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %9 = stablehlo.reduce(%x17 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1048576x8xf32>, tensor<f32>) -> tensor<8xf32>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 21262.5403{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %10 = stablehlo.reduce(%x18 init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<64x2048x64xf32>, tensor<f32>) -> tensor<2048xf32>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 23748.0128{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %11 = stablehlo.reduce(%x19 init: %zero) applies stablehlo.add across dimensions = [1, 2] : (tensor<8x1x1048576xf32>, tensor<f32>) -> tensor<8xf32>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 77260.8442{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %12 = stablehlo.reduce(%x20 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4096x1x4096xf32>, tensor<f32>) -> tensor<4096x4096xf32>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 42515.9901{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %13 = stablehlo.reduce(%x21 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16777216xf32>, tensor<f32>) -> tensor<f32>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory"{{.*}} latency_ns = 42515.9901{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %14 = stablehlo.reduce(%x22 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1x16777216x1xf32>, tensor<f32>) -> tensor<1x1xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14 : tensor<3x1048576xf32>, tensor<1048576x3xf32>, tensor<3x1x1048576xf32>, tensor<3x1048576x1xf32>, tensor<3x1048576x2xf32>, tensor<3x1048576x8xf32>, tensor<3x1048576x16xf32>, tensor<1x1048576x3xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2048xf32>, tensor<8xf32>, tensor<4096x4096xf32>, tensor<f32>, tensor<1x1xf32>
  }
}
