// RUN: hespas-opt %s --partition --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --partition --partition --split-input-file 2>&1 | filecheck %s

// CHECK-NOT: warning

/// Shardy: the manual body is one device's program; argument shapes become local.

// CHECK-LABEL: module @manual
// CHECK: func.func public @main(%[[X:.*]]: tensor<2x8xf32>) -> (tensor<2x8xf32> {jax.result_info = "result"}) {
// CHECK-NEXT: "stablehlo.all_reduce"(%[[X]])
// CHECK-NOT: sdy
module @manual attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%y: tensor<2x8xf32>) {
      %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2x8xf32>) -> tensor<2x8xf32>
      sdy.return %1 : tensor<2x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// The body's collectives, to which JAX gives one channel, get one each, as of XLA's partitioner.

// CHECK-LABEL: module @channels
// CHECK: "stablehlo.collective_permute"({{.*}}channel_handle<handle = 1, type = 1>
// CHECK: "stablehlo.collective_permute"({{.*}}channel_handle<handle = 2, type = 1>
module @channels attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>) {
      %1 = "stablehlo.collective_permute"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
      %2 = "stablehlo.collective_permute"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %2 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Constants that JAX lifts out of kernels are those of each device; attributes of the body stay.

// CHECK-LABEL: module @constants
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[TABLE:.*]] = stablehlo.constant
// CHECK-NEXT: stablehlo.custom_call @kernel(%[[TABLE]], %[[X]]) {kernel_name = "attention"}
// CHECK-NOT: sdy
module @constants attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %c = stablehlo.constant dense<[1, 0]> : tensor<2xi8>
    %0 = sdy.manual_computation(%c, %x) in_shardings=[<@mesh, [{}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%t: tensor<2xi8>, %y: tensor<4xf32>) {
      %1 = stablehlo.custom_call @kernel(%t, %y) {kernel_name = "attention"} : (tensor<2xi8>, tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<2xi8>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Shardy, automatic: XLA's partitioner puts in the collective that the shardings ask for.

// CHECK-LABEL: module @automatic
// CHECK: func.func @main(%[[X:.*]]: tensor<8x2xf32>, %[[W:.*]]: tensor<2x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: %[[D:.*]] = stablehlo.dot %[[X]], %[[W]]
// CHECK-NEXT: "stablehlo.all_reduce"(%[[D]])
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>
// CHECK-NOT: sdy
module @automatic attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// GSPMD: shardings as strings, manual parts between custom calls.

// CHECK-LABEL: module @gspmd
// CHECK: func.func @main(%[[X:.*]]: tensor<2x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: stablehlo.tanh %[[X]]
// CHECK-NOT: custom_call
module @gspmd attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %0 = stablehlo.custom_call @Sharding(%x) {backend_config = "", mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<8x8xf32>) -> tensor<2x8xf32>
    %2 = stablehlo.tanh %1 : tensor<2x8xf32>
    %3 = stablehlo.custom_call @Sharding(%2) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {backend_config = "", mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<2x8xf32>) -> tensor<8x8xf32>
    return %4 : tensor<8x8xf32>
  }
}

// -----

/// What XLA's importer wrote after partitioning keeps its shapes: the shardings are left over.

// CHECK-LABEL: module @partitioned
// CHECK: func.func @main({{.*}}tensor<2x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
// CHECK: stablehlo.all_gather
module @partitioned attributes {mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%x: tensor<2x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<8x8xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// XLA wants the entry to be named main, and only the meshes that are used count.

// CHECK-LABEL: module @entry
// CHECK-SAME: mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32
// CHECK: func.func @main({{.*}}: tensor<8x2xf32>) -> tensor<8x2xf32>
// CHECK-COUNT-2: stablehlo.tanh %{{.*}} : tensor<8x2xf32>
module @entry {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  sdy.mesh @other = <["x"=6, "y"=4096]>
  func.func @step(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = call @main(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = call @main(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func private @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Shardings may hold their mesh themselves, in some places or in all.

// CHECK-LABEL: module @inlined
// CHECK: func.func @main(%[[X:.*]]: tensor<8x32xf32>, %[[Y:.*]]: tensor<8x32xf32>)
// CHECK-NEXT: stablehlo.add %[[X]], %[[Y]]
// CHECK-NOT: sdy.manual
module @inlined {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<16x32xf32>, %b: tensor<16x32xf32>) -> tensor<16x32xf32> {
    %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{"x"}, {}]>, <mesh<["x"=2]>, [{"x"}, {}]>] out_shardings=[<mesh<["x"=2]>, [{"x"}, {}]>] manual_axes={"x"} (%c: tensor<8x32xf32>, %d: tensor<8x32xf32>) {
      %1 = stablehlo.add %c, %d : tensor<8x32xf32>
      sdy.return %1 : tensor<8x32xf32>
    } : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    return %0: tensor<16x32xf32>
  }
}

// -----

/// XLA's partitioner gets the mesh of an argument's sharding too.

// CHECK-LABEL: module @inlined_argument
// CHECK-SAME: mhlo.num_partitions = 2 : i32
// CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: stablehlo.negate %[[X]] : tensor<8xf32>
module @inlined_argument {
  func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}) -> tensor<16xf32> {
    %0 = stablehlo.negate %a : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

/// A named computation is its body.

// CHECK-LABEL: module @named
// CHECK: %[[SUM:.*]] = stablehlo.add
// CHECK-NEXT: stablehlo.negate %[[SUM]]
// CHECK-NOT: sdy
module @named {
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.named_computation<"foo">(%a) (%b: tensor<8xf32>) {
      %1 = stablehlo.add %b, %b : tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.negate %0 : tensor<8xf32>
    return %2: tensor<8xf32>
  }
}
