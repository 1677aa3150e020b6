// RUN: hespas-opt %s --partition --split-input-file | filecheck %s
// RUN: hespas-opt %s --partition --partition --split-input-file | filecheck %s
// RUN: hespas-opt %s --partition --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARNING

// WARNING: warning: arguments have shardings, but nothing else shows whether the module is partitioned: shapes are assumed to be those of one device
// WARNING-NEXT: warning: XLA's partitioner has dropped attributes of other dialects: acme.note (ops: 1){{$}}
// WARNING-NOT: warning

/// A prepared module has the shapes of one device; what is the same on all devices divides nothing.

// CHECK-LABEL: module @prepared
// CHECK: tensor<8x8xf32> {mhlo.sharding = "{replicated}"}
module @prepared attributes {hespas.communicators = {}, hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}, mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32> {mhlo.sharding = "{replicated}"}) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

/// What XLA's importer wrote keeps its shapes; there is a warning if no op shows that it was partitioned.

// CHECK-LABEL: module @silent
// CHECK: tensor<2x8xf32> {mhlo.sharding
module @silent attributes {mhlo.is_dynamic = false} {
  func.func @main(%x: tensor<2x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<2x8xf32> {
    %0 = stablehlo.tanh %x : tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
}

// -----

/// An op that only a partitioned program has shows it.

// CHECK-LABEL: module @ids
// CHECK: tensor<2x8xf32> {mhlo.sharding
module @ids attributes {mhlo.is_dynamic = false} {
  func.func @main(%x: tensor<2x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<2x8xf32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    return %x : tensor<2x8xf32>
  }
}

// -----

// CHECK-LABEL: module @fusion
// CHECK: tensor<2x8xf32> {mhlo.sharding
module @fusion attributes {mhlo.is_dynamic = false} {
  func.func @main(%x: tensor<2x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<2x8xf32> {
    %0 = "mhlo.fusion"(%x) ({
    ^bb0(%y: tensor<2x8xf32>):
      %1 = mhlo.tanh %y : tensor<2x8xf32>
      mhlo.return %1 : tensor<2x8xf32>
    }) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
}

// -----

/// The number of partitions says that it was not.

// CHECK-LABEL: module @stated
// CHECK: @main(%{{.*}}: tensor<2x8xf32>) -> tensor<2x8xf32>
module @stated attributes {mhlo.is_dynamic = false, mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// So does a mesh of Shardy, an op or in HLO's form, both of which PyTorch/XLA writes.

// CHECK-LABEL: module @meshed
// CHECK: @main(%{{.*}}: tensor<2x8xf32>) -> tensor<2x8xf32>
module @meshed attributes {mhlo.is_dynamic = false} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @meshed_in_hlo
// CHECK: @main(%{{.*}}: tensor<2x8xf32> {{.*}}) -> tensor<2x8xf32>
module @meshed_in_hlo attributes {mhlo.is_dynamic = false, mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {}]>"}, mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Shardings that give all devices the same divide nothing.

// CHECK-LABEL: module @replicated
// CHECK: @main(%{{.*}}: tensor<8x8xf32> {mhlo.sharding = "{devices=[1,1,4]<=[4] last_tile_dim_replicate}"}, %{{.*}}: tensor<8x8xf32> {mhlo.sharding = "{replicated}"})
module @replicated {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[1,1,4]<=[4] last_tile_dim_replicate}"}, %y: tensor<8x8xf32> {mhlo.sharding = "{replicated}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// The sharding of an op divides a program, whether the number of partitions is stated or not.

// CHECK-LABEL: module @op
// CHECK-SAME: mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32
// CHECK: @main(%{{.*}}: tensor<2x8xf32>) -> tensor<2x8xf32>
module @op attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @op_alone
// CHECK-SAME: mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32
// CHECK: @main(%{{.*}}: tensor<2x8xf32>) -> tensor<2x8xf32>
module @op_alone {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// A collective shows that the shapes are those of one device, unless the number of partitions is stated.

// CHECK-LABEL: module @op_local
// CHECK: @main(%{{.*}}: tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: stablehlo.tanh %{{.*}} {mhlo.sharding
module @op_local {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x8xf32>
    %1 = "stablehlo.collective_permute"(%0) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

/// So does XLA's importer, which keeps shardings that the partitioner has left.

// CHECK-LABEL: module @op_left
// CHECK: @main(%{{.*}}: tensor<8x8xf32>) -> tensor<8x8xf32>
module @op_left attributes {mhlo.is_dynamic = false} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Names of kernels stay through XLA, on the kernels alone; attributes of other dialects that XLA drops are counted, other than JAX's own.

// CHECK-LABEL: module @foreign
// CHECK: use_global_device_ids}>{{.*}} : (tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: stablehlo.custom_call @kernel({{.*}}kernel_name = "attention"
// CHECK-NEXT: stablehlo.constant dense<[0, 4]>
module @foreign attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) {
    %0 = stablehlo.tanh %x {acme.note = 1 : i64, jax.note = 1 : i64} : tensor<8x8xf32>
    %1 = stablehlo.custom_call @kernel(%0) {kernel_name = "attention", mhlo.sharding = "{devices=[2,1]<=[2]}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

/// Placements in the memory of the host are divided like other ops.

// CHECK-LABEL: module @divided
// CHECK: func.func @main(%[[X:.*]]: tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT: %[[A:.*]] = stablehlo.cosine %[[X]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.custom_call @MoveToHost(%[[A]])
// CHECK-NEXT: %[[C:.*]] = stablehlo.custom_call @MoveToDevice(%[[B]])
// CHECK-NEXT: stablehlo.sine %[[C]]
module @divided attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<16x16xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> (tensor<16x16xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) {
    %y = stablehlo.cosine %x : tensor<16x16xf32>
    %host = stablehlo.custom_call @annotate_device_placement(%y) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %back = stablehlo.custom_call @annotate_device_placement(%host) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %z = stablehlo.sine %back : tensor<16x16xf32>
    return %z : tensor<16x16xf32>
  }
}

// -----

/// An attribute that the bindings cannot represent, such as complex elements, is no obstacle.

// CHECK-LABEL: module @complex
// CHECK: func.func @main(%{{.*}}: tensor<4xf32>
// CHECK: arith.constant dense<(1.000000e+00,0.000000e+00)>
module @complex {
  func.func @main(%x: tensor<4xf32> {mhlo.note = dense<(1.0,2.0)> : tensor<2xcomplex<f32>>, mhlo.sharding = "{devices=[1]<=[1]}"}) -> tensor<complex<f32>> {
    %0 = arith.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
    return %0 : tensor<complex<f32>>
  }
}

// -----

/// The calls of a manual computation show that a program is not partitioned, although nothing is divided.

// CHECK-LABEL: module @manual
// CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: return %[[T]]
module @manual attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.custom_call @SPMDFullToShardShape(%x) {mhlo.sharding = "{manual}"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {mhlo.sharding = "{replicated}"} : (tensor<8xf32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

/// Shardings by no axis of a mesh divide nothing.

// CHECK-LABEL: module @no_axis
// CHECK: func.func @main(%{{.*}}: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
module @no_axis attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A placement without a memory is a call that XLA's partitioner does not know: each device computes all of it.

// CHECK-LABEL: module @unnamed_memory
module @unnamed_memory attributes {mhlo.num_partitions = 2 : i32} {
  // CHECK: %[[ALL:.*]] = "stablehlo.all_gather"(%{{.*}} -> tensor<8xf32>
  // CHECK-NEXT: stablehlo.custom_call @annotate_device_placement(%[[ALL]])
  func.func public @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<8xf32> {
    %1 = stablehlo.custom_call @annotate_device_placement(%x) {backend_config = ""} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.tanh %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

/// A module of HLO that XLA restores Shardy's ops in is divided by these: another sharding of HLO would gather the values.

// CHECK-LABEL: module @round_trip
module @round_trip attributes {mhlo.num_partitions = 2 : i32, mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}} {
  // CHECK-NEXT: func.func @main(%[[X:.*]]: tensor<4xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[X]] : tensor<4xf32>
  // CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[T]] : tensor<4xf32>
  // CHECK-NEXT: return %[[N]]
  func.func public @main(%x: tensor<8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"}, mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"}, mhlo.sharding = "{devices=[2]<=[2]}"}) {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{replicated}"} : tensor<8xf32>
    %1 = call @inner(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @inner(%x: tensor<8xf32> {mhlo.sharding = "{replicated}"}) -> tensor<8xf32> {
    %0 = stablehlo.negate %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// The sharding of an op divides nothing in a program that is stated to be for one partition.

// CHECK-LABEL: module @one_partition
// CHECK: stablehlo.tanh %{{.*}} : tensor<8x8xf32>
module @one_partition attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[2,1]<=[2]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
