// RUN: hespas-opt %s --partition --split-input-file | filecheck %s

/// In HLO, a result has the sharding of the returned value: where Shardy has stated none by a call, the
/// partitioner chooses, here that of the argument,

// CHECK-LABEL: module @chosen
// CHECK: @main(%{{.*}}: tensor<4xf32> {{.*}}) -> tensor<4xf32> {
// CHECK-NOT: all_gather
// CHECK: return
module @chosen attributes {mhlo.num_partitions = 2 : i32, mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}} {
  func.func public @main(%x: tensor<8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"}, mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {mhlo.sharding = "{replicated}"}) {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// also for a result that is an argument.

// CHECK-LABEL: module @forwarded
// CHECK: @main(%{{.*}}: tensor<4xf32> {{.*}}) -> tensor<4xf32> {
// CHECK-NOT: all_gather
// CHECK: return
module @forwarded attributes {mhlo.num_partitions = 2 : i32, mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}} {
  func.func public @main(%x: tensor<8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"}, mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {mhlo.sharding = "{replicated}"}) {
    return %x : tensor<8xf32>
  }
}

// -----

/// A stated one holds.

// CHECK-LABEL: module @stated
// CHECK: @main(%{{.*}}: tensor<4xf32> {{.*}}) -> tensor<8xf32> {
// CHECK: all_gather
module @stated attributes {mhlo.num_partitions = 2 : i32, mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}} {
  func.func public @main(%x: tensor<8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"}, mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {mhlo.sharding = "{replicated}"}) {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%0) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{}]>]>"}, mhlo.sharding = "{replicated}"} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
