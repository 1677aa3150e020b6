// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5e | filecheck %s --check-prefix=TPU

/// Rows of tables move in sectors of memory, from the cache where the table fits, and twice where they are combined. The
/// upper end is for sorted indices, which hit one row at a time.

module @lookups {
  func.func @main(%t: tensor<1048576x128xf32>, %i: tensor<65536x1xi32>, %n: tensor<33554432x4xf32>, %q: tensor<262144x128xf32>, %j: tensor<1048576x1xi32>, %c: tensor<64x128xf32>, %u: tensor<65536x128xf32>, %h: tensor<1048576x128xbf16>, %v: tensor<65536x128xbf16>, %sb: tensor<64x2xbf16>, %su: tensor<65536x2xbf16>) -> (tensor<65536x128xf32>, tensor<65536x4xf32>, tensor<1048576x128xf32>, tensor<1048576x128xf32>, tensor<65536x128xf32>, tensor<1048576x128xf32>, tensor<1048576x128xf32>, tensor<1048576x128xf32>, tensor<1048576x128xbf16>, tensor<64x2xbf16>) {
    /// Rows of a table beyond the cache: each is read from memory.
    // CHECK: hespas.cost{{.*}} high_ns = 45482.8{{.*}}latency_ns = 25288.4{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 179283.{{.*}}latency_ns = 97386.2{{.*}}tag = "assumed transferred"
    %g1 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>, indices_are_sorted = false}> : (tensor<1048576x128xf32>, tensor<65536x1xi32>) -> tensor<65536x128xf32>
    /// Rows of few bytes: whole sectors of memory move.
    // CHECK: hespas.cost{{.*}} high_ns = 7281.64{{.*}}latency_ns = 4048.59{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 9360.63{{.*}}latency_ns = 5084.65{{.*}}tag = "assumed transferred"
    %g2 = "stablehlo.gather"(%n, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> : (tensor<33554432x4xf32>, tensor<65536x1xi32>) -> tensor<65536x4xf32>
    /// Of a table beyond the cache that is read several times, rows come from memory again,
    // CHECK: hespas.cost{{.*}} high_ns = 573836.{{.*}}latency_ns = 319053.{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1768204{{.*}}latency_ns = 960480.{{.*}}tag = "assumed transferred"
    %g3 = "stablehlo.gather"(%q, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>, indices_are_sorted = false}> : (tensor<262144x128xf32>, tensor<1048576x1xi32>) -> tensor<1048576x128xf32>
    /// but not with sorted indices, where equal rows follow each other.
    // CHECK: hespas.cost{{.*}} high_ns = 425771.{{.*}}latency_ns = 236729.{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1768204{{.*}}latency_ns = 960480.{{.*}}tag = "assumed transferred"
    %g5 = "stablehlo.gather"(%q, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>, indices_are_sorted = true}> : (tensor<262144x128xf32>, tensor<1048576x1xi32>) -> tensor<1048576x128xf32>
    /// A table in the cache of each core moves nothing in the shared one.
    // CHECK: hespas.cost{{.*}} high_ns = 25254.3{{.*}}latency_ns = 14041.4{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 91667.2{{.*}}latency_ns = 49793.2{{.*}}tag = "assumed transferred"
    %g4 = "stablehlo.gather"(%c, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 128>, indices_are_sorted = false}> : (tensor<64x128xf32>, tensor<65536x1xi32>) -> tensor<65536x128xf32>
    /// An update replaces rows, which is a write;
    // CHECK: hespas.cost{{.*}} high_ns = 44699.0{{.*}}latency_ns = 24852.6{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 179283.{{.*}}latency_ns = 97386.2{{.*}}tag = "assumed transferred"
    %s1 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<1048576x128xf32>, tensor<65536x1xi32>, tensor<65536x128xf32>) -> tensor<1048576x128xf32>
    /// adds to them, each once;
    // CHECK: hespas.cost{{.*}} high_ns = 64969.7{{.*}}latency_ns = 36123.2{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 267111.{{.*}}latency_ns = 145093.{{.*}}tag = "assumed transferred"
    %s2 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1048576x128xf32>, tensor<65536x1xi32>, tensor<65536x128xf32>) -> tensor<1048576x128xf32>
    /// or perhaps several to one row, by atomic additions;
    // CHECK: hespas.cost{{.*}} high_ns = 76584.9{{.*}}latency_ns = 36938.2{{.*}}tag = "assumed contention"
    // TPU: hespas.cost{{.*}} high_ns = 267111.{{.*}}latency_ns = 145093.{{.*}}tag = "assumed transferred"
    %s3 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1048576x128xf32>, tensor<65536x1xi32>, tensor<65536x128xf32>) -> tensor<1048576x128xf32>
    /// of a type without these, in a loop,
    // CHECK: hespas.cost{{.*}} high_ns = 145306.{{.*}}latency_ns = 70083.7{{.*}}tag = "assumed contention"
    // TPU: hespas.cost{{.*}} high_ns = 135558.{{.*}}latency_ns = 73634.5{{.*}}tag = "assumed transferred"
    %s4 = "stablehlo.scatter"(%h, %i, %v) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<1048576x128xbf16>, tensor<65536x1xi32>, tensor<65536x128xbf16>) -> tensor<1048576x128xbf16>
    /// which many updates of few numbers may repeat for long.
    // CHECK: hespas.cost{{.*}} high_ns = 1212794{{.*}}latency_ns = 155069.{{.*}}tag = "assumed contention"
    // TPU: hespas.cost{{.*}} high_ns = 4567.70{{.*}}latency_ns = 2481.15{{.*}}tag = "assumed transferred"
    %s5 = "stablehlo.scatter"(%sb, %i, %su) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<64x2xbf16>, tensor<65536x1xi32>, tensor<65536x2xbf16>) -> tensor<64x2xbf16>
    return %g1, %g2, %g3, %g5, %g4, %s1, %s2, %s3, %s4, %s5 : tensor<65536x128xf32>, tensor<65536x4xf32>, tensor<1048576x128xf32>, tensor<1048576x128xf32>, tensor<65536x128xf32>, tensor<1048576x128xf32>, tensor<1048576x128xf32>, tensor<1048576x128xf32>, tensor<1048576x128xbf16>, tensor<64x2xbf16>
  }
}
