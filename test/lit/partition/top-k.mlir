// RUN: hespas-opt %s --partition --split-input-file | filecheck %s
// RUN: hespas-opt %s --partition --partition --split-input-file | filecheck %s

/// The largest elements of divided rows are selected in each part first, and then of all parts' by a
/// sort. XLA calls a function for them, of rows of one dimension.

// CHECK-LABEL: module @floats
// CHECK-NOT: func.func private
// CHECK: func.func @main(%[[X:.*]]: tensor<2x4x512xf32>)
// CHECK: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<2x4x512xf32>) -> tensor<8x512xf32>
// CHECK: mhlo.topk(%[[R]], k = 4) : tensor<8x512xf32> -> (tensor<8x4xf32>, tensor<8x4xi32>)
// CHECK: "stablehlo.all_gather"
// CHECK: "stablehlo.sort"
// CHECK-NOT: tensor<2x4x1024xf32>
// CHECK-NOT: custom_call
module @floats attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func private @is_greater_0(%x: tensor<2x4x1024xf32>) -> tensor<2x4x1024xf32> {
    return %x : tensor<2x4x1024xf32>
  }
  func.func public @main(%x: tensor<2x4x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>}) -> (tensor<2x4x4xf32>, tensor<2x4x4xi32>) {
    %0 = func.call @is_greater_0(%x) : (tensor<2x4x1024xf32>) -> tensor<2x4x1024xf32>
    %1:2 = chlo.top_k(%0, k = 4) : tensor<2x4x1024xf32> -> (tensor<2x4x4xf32>, tensor<2x4x4xi32>)
    return %1#0, %1#1 : tensor<2x4x4xf32>, tensor<2x4x4xi32>
  }
}

// -----

/// A number of bfloat16 and its position in a short row are one integer, which XLA sorts in all rows.

// CHECK-LABEL: module @packed
// CHECK-NOT: all_gather
// CHECK: stablehlo.bitcast_convert {{.*}} : (tensor<4x64xf32>) -> tensor<4x64xi32>
// CHECK: "stablehlo.sort"
// CHECK: (tensor<4x64xi32>) -> tensor<4x64xi32>
// CHECK-NOT: all_gather
module @packed attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<8x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0:2 = chlo.top_k(%x, k = 2) : tensor<8x64xbf16> -> (tensor<8x2xbf16>, tensor<8x2xi32>)
    return %0#0, %0#1 : tensor<8x2xbf16>, tensor<8x2xi32>
  }
}

// -----

/// Parts of a long row that are short themselves are no integers: the call stays.

// CHECK-LABEL: module @long
// CHECK: mhlo.topk(%arg0, k = 2) : tensor<8x65536xbf16>
// CHECK: custom_call @TopK({{.*}} : (tensor<8x50000xbf16>)
module @long attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x131072xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %y: tensor<8x100000xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8x2xi32>, tensor<8x2xi32>) {
    %0:2 = chlo.top_k(%x, k = 2) : tensor<8x131072xbf16> -> (tensor<8x2xbf16>, tensor<8x2xi32>)
    %1:2 = chlo.top_k(%y, k = 2) : tensor<8x100000xbf16> -> (tensor<8x2xbf16>, tensor<8x2xi32>)
    return %0#1, %1#1 : tensor<8x2xi32>, tensor<8x2xi32>
  }
}

// -----

/// Integers are sorted.

// CHECK-LABEL: module @integers
// CHECK: "stablehlo.sort"
// CHECK: stablehlo.compare GT, {{.*}} : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
// CHECK-NOT: top
module @integers attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x64xui32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x2xui32>, tensor<8x2xi32>) {
    %0:2 = chlo.top_k(%x, k = 2) : tensor<8x64xui32> -> (tensor<8x2xui32>, tensor<8x2xi32>)
    return %0#0, %0#1 : tensor<8x2xui32>, tensor<8x2xi32>
  }
}
