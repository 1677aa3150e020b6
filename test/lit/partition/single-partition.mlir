// RUN: hespas-opt %s --partition --split-input-file | filecheck %s
// RUN: hespas-opt %s --partition --partition --split-input-file | filecheck %s
// RUN: hespas-opt %s --xla-optimize=target=cpu --split-input-file | filecheck %s --check-prefix=OPT

/// A mesh of one device: global shapes are local ones, so that only the shardings are removed.

// CHECK-LABEL: module @one
// OPT-LABEL: module @one
// OPT: func.func @main({{.*}}: tensor<8x8xf32> {jax.arg_info = "x"}) -> tensor<8x8xf32>
// CHECK-NOT: sdy
// CHECK: func.func public @main(%[[X:.*]]: tensor<8x8xf32> {jax.arg_info = "x"}) -> tensor<8x8xf32> {
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<8x8xf32>
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[X]], %[[ZERO]] : tensor<8x8xf32>
// CHECK-NEXT: %[[ALL:.*]] = "stablehlo.all_reduce"(%[[SUM]])
// CHECK-SAME: replica_groups = dense<0> : tensor<1x1xi64>
// CHECK: return %[[ALL]] : tensor<8x8xf32>
module @one attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=1, "y"=1]>
  func.func public @main(%x: tensor<8x8xf32> {jax.arg_info = "x", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
    %zero = sdy.constant dense<0.000000e+00> : tensor<8x8xf32>
    %0 = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8x8xf32>
    %1 = stablehlo.add %0, %zero {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%y: tensor<8x8xf32>) {
      %3 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      sdy.return %3 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

/// GSPMD's shardings for one device, and several replicas of one partition.

// CHECK-LABEL: module @replicas
// OPT-LABEL: module @replicas
// OPT: "stablehlo.all_reduce"
// CHECK: func.func public @main(%[[X:.*]]: tensor<8x8xf32>) -> tensor<8x8xf32> {
// CHECK-NEXT: %[[S:.*]] = stablehlo.custom_call @Sharding(%[[X]]) : (tensor<8x8xf32>)
// CHECK-NEXT: "stablehlo.all_reduce"(%[[S]])
// CHECK-NOT: sharding
module @replicas attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[1,1]<=[1]}"}) -> (tensor<8x8xf32>) {
    %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[1,1]<=[1]}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
