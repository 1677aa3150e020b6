// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB 2>&1 | filecheck %s

/// Each kind of kernel has the time and the upper end of its own class: loops, reductions, convolutions, rows, lookups,
/// updates of rows that may be the same, passes of a sort, and products of a type without a rate of its own.
/// The numbers are those of the node's constants, and change with them.

// CHECK: calibrated-annotate: 5 distinct kernels assumed: kernels of this class were not measured, the band is wider
// CHECK-NEXT: calibrated-annotate: 1 distinct kernel contention: atomic updates may hit the same rows, the upper end is for sorted indices
// CHECK-NEXT: calibrated-annotate: 2 distinct kernels transferred: with constants of another device or type, the band is wider
// CHECK: constants = "H100_80GB, {{.*}}; rates of other types: matrix.i4 at matrix.i8 (distinct ops: 1); distinct kernels: 5 assumed, 1 contention, 2 transferred"
module @kinds {
  // CHECK: stablehlo.tanh{{.*}}bound = "memory", {{.*}} high_ns = 74006.086{{.*}}kernel_class = "stream.loop", latency_ns = 48396.694{{.*}}shared_low_ns = {{[0-9.]+}} : f64, write_bytes
  // CHECK: stablehlo.reduce{{.*}}bound = "memory", {{.*}} high_ns = 48718.16{{.*}}kernel_class = "stream.reduce", latency_ns = 24774.78{{.*}}tag = "transferred"
  // CHECK: stablehlo.tanh{{.*}}bound = "memory", {{.*}} high_ns = 142867.07{{.*}}kernel_class = "stream.loop", latency_ns = 93428.720{{.*}}shared_low_ns = {{[0-9.]+}} : f64, write_bytes
  // CHECK: stablehlo.convolution{{.*}}bound = "compute", {{.*}} high_ns = 7398.335{{.*}}kernel_class = "product.convolution", latency_ns = 6168.4177{{.*}}tag = "assumed"
  // CHECK: }){{.*}}bound = "memory", {{.*}} high_ns = 93965.212{{.*}}kernel_class = "stream.reduce", latency_ns = 47784.392{{.*}}tag = "transferred"
  // CHECK: stablehlo.gather{{.*}}bound = "memory", {{.*}} high_ns = 14319.442{{.*}}kernel_class = "stream.loop", latency_ns = 7961.611{{.*}}tag = "assumed"
  // CHECK: }){{.*}}bound = "memory", {{.*}} high_ns = 22545.461{{.*}}kernel_class = "stream.loop", latency_ns = 10874.06{{.*}}tag = "assumed contention"
  // CHECK: }){{.*}}bound = "compute", {{.*}} high_ns = 1958922.66{{.*}}kernel_class = "stream.loop", latency_ns = 1089161.1{{.*}}tag = "assumed"
  // CHECK: stablehlo.dot{{.*}}bound = "compute", {{.*}} high_ns = 12508.186{{.*}}kernel_class = "stream.loop", latency_ns = 6203.985{{.*}}tag = "assumed
  func.func public @main(%x: tensor<4096x4096xf32>, %d: tensor<4096x4096xf64>, %im: tensor<8x56x56x64xbf16>, %w: tensor<3x3x64x64xbf16>, %t: tensor<65536x128xf32>, %i: tensor<16384x1xi32>, %u: tensor<16384x128xf32>, %q: tensor<256x256xi4>) -> (tensor<4096x4096xf32>, tensor<4096xf32>, tensor<4096x4096xf64>, tensor<8x56x56x64xbf16>, tensor<4096x4096xf32>, tensor<16384x128xf32>, tensor<65536x128xf32>, tensor<4096x4096xf32>, tensor<256x256xi32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.tanh %x : tensor<4096x4096xf32>
    %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %2 = stablehlo.tanh %d : tensor<4096x4096xf64>
    %3 = stablehlo.convolution(%im, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x56x56x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x56x56x64xbf16>
    %4 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
    ^bb0(%a: tensor<4096x4096xf32>):
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %e = stablehlo.exponential %a : tensor<4096x4096xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4096xf32>) -> tensor<4096x4096xf32>
      %r = stablehlo.divide %e, %b : tensor<4096x4096xf32>
      mhlo.return %r : tensor<4096x4096xf32>
    }) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %5 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>}> : (tensor<65536x128xf32>, tensor<16384x1xi32>) -> tensor<16384x128xf32>
    %6 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<65536x128xf32>, tensor<16384x1xi32>, tensor<16384x128xf32>) -> tensor<65536x128xf32>
    %7 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %8 = stablehlo.dot %q, %q : (tensor<256x256xi4>, tensor<256x256xi4>) -> tensor<256x256xi32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4096x4096xf32>, tensor<4096xf32>, tensor<4096x4096xf64>, tensor<8x56x56x64xbf16>, tensor<4096x4096xf32>, tensor<16384x128xf32>, tensor<65536x128xf32>, tensor<4096x4096xf32>, tensor<256x256xi32>
  }
}
