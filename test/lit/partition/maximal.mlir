// RUN: hespas-opt %s --partition --split-input-file 2> %t.err | filecheck %s
// RUN: filecheck %s --check-prefix=WARNING < %t.err

/// XLA's partitioner lets every device compute a value of one device alone, and sends that of the one
/// to the others: DefaultAction and Reshard to replicated (xla/service/spmd/spmd_partitioner.cc).

// CHECK-LABEL: module @argument
// CHECK: @main(%[[X:.*]]: tensor<8x8xf32>
// CHECK: %[[OWN:.*]] = stablehlo.select %{{.*}}, %[[X]], %{{.*}} : tensor<8x8xi1>, tensor<8x8xf32>
// CHECK: %[[SENT:.*]] = "stablehlo.all_reduce"(%[[OWN]])
// CHECK: stablehlo.tanh %[[SENT]]
// WARNING: warning: a maximal sharding gives to one device alone: an argument or result of func.func ({{.*}}); XLA's partitioner lets every device compute the value
module @argument attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{maximal device=0}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// The number of a device implies that there are so many.

// CHECK-LABEL: module @count
// CHECK-SAME: mhlo.num_partitions = 4 : i32
// CHECK: stablehlo.all_reduce
// WARNING: one device alone: an argument or result of func.func
module @count {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{maximal device=3}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Shardy has a mesh without axes for it.

// CHECK-LABEL: module @shardy_op
// CHECK: %[[Y:.*]] = stablehlo.tanh
// CHECK: %[[OWN:.*]] = stablehlo.select %{{.*}}, %[[Y]], %{{.*}} : tensor<8x8xi1>, tensor<8x8xf32>
// CHECK: %[[SENT:.*]] = "stablehlo.all_reduce"(%[[OWN]])
// CHECK: stablehlo.negate %[[SENT]]
// WARNING: one device alone: stablehlo.tanh
module @shardy_op attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : tensor<8x8xf32>
    %1 = stablehlo.negate %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

/// A constraint is the op that has it.

// CHECK-LABEL: module @constraint
// CHECK: %[[OWN:.*]] = stablehlo.select
// CHECK: "stablehlo.all_reduce"(%[[OWN]])
// WARNING: one device alone: sdy.sharding_constraint
module @constraint attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    %1 = sdy.sharding_constraint %0 <@maximal_mesh_0, []> : tensor<8x8xf32>
    %2 = stablehlo.negate %1 : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

/// Alone, the device has it all.

// CHECK-LABEL: module @alone
// CHECK-NOT: all_reduce
// WARNING-NOT: warning
module @alone {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{maximal device=0}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// So it has in a program that says that it is one of one device: no sharding is read there.

// CHECK-LABEL: module @stated
// CHECK: stablehlo.tanh
// WARNING-NOT: warning
module @stated attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{maximal device=1}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// XLA gives a call of the host to one device itself.

// CHECK-LABEL: module @host_call
// CHECK-NOT: all_reduce
// WARNING-NOT: warning
module @host_call attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%0) {has_side_effect = true, mhlo.sharding = "{maximal device=0}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
