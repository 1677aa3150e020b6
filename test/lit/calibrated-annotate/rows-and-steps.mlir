// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB --keep-going --split-input-file | filecheck %s

/// Rows that are looked up or updated, and the steps of factorisations, at the edges of their rules. The numbers are those of the
/// constants of the node, and change with them.

// CHECK-LABEL: module @rows
module @rows {
  func.func @main(%x0: tensor<256x128xf32>, %x1: tensor<262144x1xi32>, %x2: tensor<257x128xf32>, %x3: tensor<1048576x128xf32>, %x4: tensor<65536x1xi32>, %x5: tensor<4096x1xf32>, %x6: tensor<32768x2xf32>, %x7: tensor<4194304x1xi32>, %x8: tensor<65536x4x32xf32>, %x9: tensor<1048576x4x2xf32>, %x10: tensor<8192x128xf32>, %x11: tensor<262144x128xf32>, %x12: tensor<8192x4xf32>, %x13: tensor<262144x4xf32>, %x14: tensor<8192x8xf32>, %x15: tensor<262144x8xf32>, %x16: tensor<8192x128xbf16>, %x17: tensor<262144x128xbf16>, %x18: tensor<8192x128xi32>, %x19: tensor<262144x128xi32>, %x20: tensor<8192xf32>, %x21: tensor<262144xf32>, %x22: tensor<128x262144xf32>) -> (tensor<262144x128xf32>, tensor<262144x128xf32>, tensor<65536x16xf32>, tensor<65536x1xf32>, tensor<4194304x2xf32>, tensor<65536x4x32xf32>, tensor<65536x4x2xf32>, tensor<8192x128xf32>, tensor<8192x128xf32>, tensor<8192x4xf32>, tensor<8192x8xf32>, tensor<8192x128xbf16>, tensor<8192x128xbf16>, tensor<8192x128xbf16>, tensor<8192x128xi32>, tensor<8192xf32>, tensor<8192x128xf32>, tensor<8192x128xf32>) {
    /// A table of 128 KiB is in the cache of each core, a larger one in the shared cache.
    // CHECK: stablehlo.gather{{.*}}bound = "memory"{{.*}} high_ns = 148684.3803{{.*}} latency_ns = 81380.0467{{.*}} tag = "assumed"
    %0 = "stablehlo.gather"(%x0, %x1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>, indices_are_sorted = false}> : (tensor<256x128xf32>, tensor<262144x1xi32>) -> tensor<262144x128xf32>
    // CHECK: stablehlo.gather{{.*}}bound = "memory"{{.*}} high_ns = 148684.9060{{.*}} latency_ns = 81380.3344{{.*}} tag = "assumed"
    %1 = "stablehlo.gather"(%x2, %x1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>, indices_are_sorted = false}> : (tensor<257x128xf32>, tensor<262144x1xi32>) -> tensor<262144x128xf32>
    /// Parts of rows, and whole tables.
    // CHECK: stablehlo.gather{{.*}}bound = "memory"{{.*}} high_ns = 13591.3564{{.*}} latency_ns = 7439.0142{{.*}} tag = "assumed"
    %2 = "stablehlo.gather"(%x3, %x4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>, indices_are_sorted = false}> : (tensor<1048576x128xf32>, tensor<65536x1xi32>) -> tensor<65536x16xf32>
    // CHECK: stablehlo.gather{{.*}}bound = "launch"{{.*}} high_ns = 5114.4499{{.*}} latency_ns = 2799.3133{{.*}} tag = "assumed"
    %3 = "stablehlo.gather"(%x5, %x4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}> : (tensor<4096x1xf32>, tensor<65536x1xi32>) -> tensor<65536x1xf32>
    /// Rows of less than a sector of the cache.
    // CHECK: stablehlo.gather{{.*}}bound = "memory"{{.*}} high_ns = 81622.7491{{.*}} latency_ns = 44674.9223{{.*}} tag = "assumed"
    %4 = "stablehlo.gather"(%x6, %x7) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : (tensor<32768x2xf32>, tensor<4194304x1xi32>) -> tensor<4194304x2xf32>
    /// Whole planes, which are contiguous.
    // CHECK: stablehlo.gather{{.*}}bound = "memory"{{.*}} high_ns = 75001.4952{{.*}} latency_ns = 41050.8836{{.*}} tag = "assumed"
    %5 = "stablehlo.gather"(%x8, %x4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4, 32>}> : (tensor<65536x4x32xf32>, tensor<65536x1xi32>) -> tensor<65536x4x32xf32>
    // CHECK: stablehlo.gather{{.*}}bound = "memory"{{.*}} high_ns = 11358.1712{{.*}} latency_ns = 6216.7156{{.*}} tag = "assumed"
    %6 = "stablehlo.gather"(%x9, %x4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4, 2>}> : (tensor<1048576x4x2xf32>, tensor<65536x1xi32>) -> tensor<65536x4x2xf32>
    /// Additions to a table in the cache, to each row once or perhaps several times;
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 170531.5803{{.*}} latency_ns = 93337.7665{{.*}} tag = "assumed"
    %7 = "stablehlo.scatter"(%x10, %x1, %x11) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<8192x128xf32>, tensor<262144x1xi32>, tensor<262144x128xf32>) -> tensor<8192x128xf32>
    // CHECK: }) {{.*}}bound = "compute"{{.*}} high_ns = 265667.9239{{.*}} latency_ns = 120865.126{{.*}} tag = "assumed contention"
    %8 = "stablehlo.scatter"(%x10, %x1, %x11) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<8192x128xf32>, tensor<262144x1xi32>, tensor<262144x128xf32>) -> tensor<8192x128xf32>
    /// rows of less than a sector, which are read as well;
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 13593.7542{{.*}} latency_ns = 7440.3266{{.*}} tag = "assumed"
    %9 = "stablehlo.scatter"(%x12, %x1, %x13) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %b : tensor<f32> }) : (tensor<8192x4xf32>, tensor<262144x1xi32>, tensor<262144x4xf32>) -> tensor<8192x4xf32>
    /// rows of a sector;
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 14509.6544{{.*}} latency_ns = 7941.6301{{.*}} tag = "assumed"
    %10 = "stablehlo.scatter"(%x14, %x1, %x15) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %b : tensor<f32> }) : (tensor<8192x8xf32>, tensor<262144x1xi32>, tensor<262144x8xf32>) -> tensor<8192x8xf32>
    /// types with and without atomic additions;
    // CHECK: }) {{.*}}bound = "compute"{{.*}} high_ns = 1541109.027{{.*}} latency_ns = 701124.678{{.*}} tag = "assumed contention"
    %11 = "stablehlo.scatter"(%x16, %x1, %x17) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<bf16>, %b: tensor<bf16>): %s = stablehlo.add %a, %b : tensor<bf16> stablehlo.return %s : tensor<bf16> }) : (tensor<8192x128xbf16>, tensor<262144x1xi32>, tensor<262144x128xbf16>) -> tensor<8192x128xbf16>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 87846.6540{{.*}} latency_ns = 48081.4783{{.*}} tag = "assumed"
    %12 = "stablehlo.scatter"(%x16, %x1, %x17) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({ ^bb0(%a: tensor<bf16>, %b: tensor<bf16>): %s = stablehlo.add %a, %b : tensor<bf16> stablehlo.return %s : tensor<bf16> }) : (tensor<8192x128xbf16>, tensor<262144x1xi32>, tensor<262144x128xbf16>) -> tensor<8192x128xbf16>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 76707.8694{{.*}} latency_ns = 41984.8405{{.*}} tag = "assumed"
    %13 = "stablehlo.scatter"(%x16, %x1, %x17) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<bf16>, %b: tensor<bf16>): stablehlo.return %b : tensor<bf16> }) : (tensor<8192x128xbf16>, tensor<262144x1xi32>, tensor<262144x128xbf16>) -> tensor<8192x128xbf16>
    // CHECK: }) {{.*}}bound = "compute"{{.*}} high_ns = 265667.9239{{.*}} latency_ns = 120865.126{{.*}} tag = "assumed contention"
    %14 = "stablehlo.scatter"(%x18, %x1, %x19) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<i32>, %b: tensor<i32>): %s = stablehlo.add %a, %b : tensor<i32> stablehlo.return %s : tensor<i32> }) : (tensor<8192x128xi32>, tensor<262144x1xi32>, tensor<262144x128xi32>) -> tensor<8192x128xi32>
    /// single numbers;
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 14896.7417{{.*}} latency_ns = 6777.2448{{.*}} tag = "assumed contention"
    %15 = "stablehlo.scatter"(%x20, %x1, %x21) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<8192xf32>, tensor<262144x1xi32>, tensor<262144xf32>) -> tensor<8192xf32>
    /// updates that lie apart;
    // CHECK: }) {{.*}}bound = "memory"{{.*}} high_ns = 1145893.6839{{.*}} latency_ns = 521322.1952{{.*}} tag = "assumed contention"
    %16 = "stablehlo.scatter"(%x10, %x1, %x22) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<8192x128xf32>, tensor<262144x1xi32>, tensor<128x262144xf32>) -> tensor<8192x128xf32>
    /// two tables at once.
    // CHECK: }) {{.*}}bound = "compute"{{.*}} high_ns = 525245.8105{{.*}} latency_ns = 238959.6023{{.*}} tag = "assumed contention"
    %17:2 = "stablehlo.scatter"(%x10, %x10, %x1, %x11, %x11) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %c: tensor<f32>, %b: tensor<f32>, %d: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> %r = stablehlo.add %c, %d : tensor<f32> stablehlo.return %s, %r : tensor<f32>, tensor<f32> }) : (tensor<8192x128xf32>, tensor<8192x128xf32>, tensor<262144x1xi32>, tensor<262144x128xf32>, tensor<262144x128xf32>) -> (tensor<8192x128xf32>, tensor<8192x128xf32>)
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17#0 : tensor<262144x128xf32>, tensor<262144x128xf32>, tensor<65536x16xf32>, tensor<65536x1xf32>, tensor<4194304x2xf32>, tensor<65536x4x32xf32>, tensor<65536x4x2xf32>, tensor<8192x128xf32>, tensor<8192x128xf32>, tensor<8192x4xf32>, tensor<8192x8xf32>, tensor<8192x128xbf16>, tensor<8192x128xbf16>, tensor<8192x128xbf16>, tensor<8192x128xi32>, tensor<8192xf32>, tensor<8192x128xf32>, tensor<8192x128xf32>
  }
}

// -----

// CHECK-LABEL: module @factorisations
module @factorisations {
  func.func @main(%x0: tensor<512x512xf32>, %x1: tensor<512x4096xf32>, %x2: tensor<64x64xf32>, %x3: tensor<4096x64xf32>, %x4: tensor<32x64x64xf32>, %x5: tensor<32x64x128xf32>, %x6: tensor<32x64x64xf32>, %x7: tensor<4096x128xf32>, %x8: tensor<128x4096xf32>, %x9: tensor<4096xf32>, %x10: tensor<16x32x32xf32>, %x11: tensor<16x33x33xf32>, %x12: tensor<512x128xf32>, %x13: tensor<16x64x64xf32>, %x14: tensor<2x512x512xf32>, %x15: tensor<64x512x512xf32>, %x16: tensor<2048x2048xf32>) -> (tensor<512x4096xf32>, tensor<4096x64xf32>, tensor<32x64x128xf32>, tensor<32x64x64xf32>, tensor<4096x128xf32>, tensor<128x4096xf32>, tensor<4096xf32>, tensor<16x32x32xf32>, tensor<16x33x33xf32>, tensor<512x128xf32>, tensor<16x64x64xf32>, tensor<2x512x512xf32>, tensor<64x512x512xf32>, tensor<16x64x64xf32>, tensor<16x64x64xf32>, tensor<2048x2048xf32>) {
    /// The steps of a system are those of its triangle, whichever operand is larger,
    // CHECK: stablehlo.triangular_solve{{.*}}bound = "launch"{{.*}} high_ns = 770257.7108{{.*}} latency_ns = 354578.9806{{.*}} tag = "assumed"
    %0 = "stablehlo.triangular_solve"(%x0, %x1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<512x512xf32>, tensor<512x4096xf32>) -> tensor<512x4096xf32>
    // CHECK: stablehlo.triangular_solve{{.*}}bound = "launch"{{.*}} high_ns = 93853.4729{{.*}} latency_ns = 43204.3305{{.*}} tag = "assumed"
    %1 = "stablehlo.triangular_solve"(%x2, %x3) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<64x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
    /// of a batch together.
    // CHECK: stablehlo.triangular_solve{{.*}}bound = "launch"{{.*}} high_ns = 93868.9740{{.*}} latency_ns = 43211.4663{{.*}} tag = "assumed"
    %2 = "stablehlo.triangular_solve"(%x4, %x5) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<32x64x64xf32>, tensor<32x64x128xf32>) -> tensor<32x64x128xf32>
    // CHECK: stablehlo.triangular_solve{{.*}}bound = "launch"{{.*}} high_ns = 91789.9582{{.*}} latency_ns = 42254.4161{{.*}} tag = "assumed"
    %3 = "stablehlo.triangular_solve"(%x4, %x6) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<32x64x64xf32>, tensor<32x64x64xf32>) -> tensor<32x64x64xf32>
    /// Tall matrices have the steps of their columns,
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 2282016.6702{{.*}} latency_ns = 1050499.2464{{.*}} tag = "assumed"
    %4 = stablehlo.custom_call @cusolver_geqrf_ffi(%x7) : (tensor<4096x128xf32>) -> tensor<4096x128xf32>
    /// wide ones of their rows.
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 2282016.6702{{.*}} latency_ns = 1050499.2464{{.*}} tag = "assumed"
    %5 = stablehlo.custom_call @cusolver_geqrf_ffi(%x8) : (tensor<128x4096xf32>) -> tensor<128x4096xf32>
    /// A vector has one column.
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 44551.0382{{.*}} latency_ns = 20508.5408{{.*}} tag = "assumed"
    %6 = stablehlo.custom_call @cusolver_getrf_ffi(%x9) : (tensor<4096xf32>) -> tensor<4096xf32>
    /// Small matrices are factorised by rotations together;
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 634099.5422{{.*}} latency_ns = 291900.1863{{.*}} tag = "assumed"
    %7 = stablehlo.custom_call @cusolver_gesvdj_ffi(%x10) : (tensor<16x32x32xf32>) -> tensor<16x32x32xf32>
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 26000098.2802{{.*}} latency_ns = 11968836.1641{{.*}} tag = "assumed"
    %8 = stablehlo.custom_call @cusolver_gesvdj_ffi(%x11) : (tensor<16x33x33xf32>) -> tensor<16x33x33xf32>
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 17477593.5213{{.*}} latency_ns = 8045602.4106{{.*}} tag = "assumed"
    %9 = stablehlo.custom_call @cusolver_gesvdj_ffi(%x12) : (tensor<512x128xf32>) -> tensor<512x128xf32>
    /// many together by cuBLAS, few one after the other;
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 466668.1399{{.*}} latency_ns = 214825.1306{{.*}} tag = "assumed"
    %10 = stablehlo.custom_call @cusolver_getrf_ffi(%x13) : (tensor<16x64x64xf32>) -> tensor<16x64x64xf32>
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 17885182.7821{{.*}} latency_ns = 8233231.2815{{.*}} tag = "assumed"
    %11 = stablehlo.custom_call @cusolver_getrf_ffi(%x14) : (tensor<2x512x512xf32>) -> tensor<2x512x512xf32>
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 4688317.0274{{.*}} latency_ns = 2158211.0106{{.*}} tag = "assumed"
    %12 = stablehlo.custom_call @cusolver_getrf_ffi(%x15) : (tensor<64x512x512xf32>) -> tensor<64x512x512xf32>
    /// others always one after the other.
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 152738435.6393{{.*}} latency_ns = 70311323.1507{{.*}} tag = "assumed"
    %13 = stablehlo.custom_call @cusolver_gesvd_ffi(%x13) : (tensor<16x64x64xf32>) -> tensor<16x64x64xf32>
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 25161418.5485{{.*}} latency_ns = 11582759.9195{{.*}} tag = "assumed"
    %14 = stablehlo.custom_call @cusolver_sytrd_ffi(%x13) : (tensor<16x64x64xf32>) -> tensor<16x64x64xf32>
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} high_ns = 410644465.6037{{.*}} latency_ns = 189035298.1570{{.*}} tag = "assumed"
    %15 = stablehlo.custom_call @cusolver_syevd_ffi(%x16) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15 : tensor<512x4096xf32>, tensor<4096x64xf32>, tensor<32x64x128xf32>, tensor<32x64x64xf32>, tensor<4096x128xf32>, tensor<128x4096xf32>, tensor<4096xf32>, tensor<16x32x32xf32>, tensor<16x33x33xf32>, tensor<512x128xf32>, tensor<16x64x64xf32>, tensor<2x512x512xf32>, tensor<64x512x512xf32>, tensor<16x64x64xf32>, tensor<16x64x64xf32>, tensor<2048x2048xf32>
  }
}
