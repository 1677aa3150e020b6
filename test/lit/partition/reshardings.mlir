// RUN: hespas-opt %s --partition --split-input-file | filecheck %s

/// Each op of Shardy between the parts of arrays becomes a collective of XLA's partitioner, or a slice. The
/// layouts of XLA's importer are none of the program.

// CHECK-LABEL: module @reshard
module @reshard attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK: @main(%[[X:.*]]: tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: stablehlo.all_to_all
  // CHECK: stablehlo.transpose %{{[0-9]+}}, dims = [1, 0, 2] : (
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.reshard %x <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @all_slice
module @all_slice attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK: @main(%[[X:.*]]: tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: stablehlo.dynamic_slice
  // CHECK: stablehlo.tanh %{{.*}} : tensor<4x8xf32>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_slice [{"x"}, {}] %x out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
    %1 = stablehlo.tanh %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @all_to_all
module @all_to_all attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK: stablehlo.all_to_all
  // CHECK: stablehlo.tanh %{{.*}} : tensor<8x4xf32>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_to_all [{"x"}: 0->1] %x out_sharding=<@mesh, [{}, {"x"}]> : tensor<8x8xf32>
    %1 = stablehlo.tanh %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @collective_permute
module @collective_permute attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  // CHECK: stablehlo.collective_permute
  // CHECK: stablehlo.tanh %{{.*}} : tensor<4x8xf32>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.collective_permute %x out_sharding=<@mesh, [{"y"}, {}]> : tensor<8x8xf32>
    %1 = stablehlo.tanh %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @reduce_scatter
module @reduce_scatter attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK: stablehlo.dot{{.*}} : (tensor<8x4xf32>, tensor<4x8xf32>)
  // CHECK: "stablehlo.{{reduce_scatter|all_reduce}}"
  // CHECK: stablehlo.tanh %{{.*}} : tensor<4x8xf32>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.reduce_scatter [{"x"}, {}] %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
    %2 = stablehlo.tanh %1 : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
