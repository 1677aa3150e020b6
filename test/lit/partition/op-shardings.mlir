// RUN: hespas-opt %s --partition --split-input-file | filecheck %s

/// A sharding that stands only on an op divides the program as a constraint does, from the mesh alone.
/// The shapes of all cases are those of Shardy's own propagation (sdy-propagation-pipeline).

// CHECK-LABEL: module @op
// CHECK-SAME: mhlo.num_partitions = 2 : i32
// CHECK: @main(%[[X:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: stablehlo.tanh %[[X]] : tensor<4x8xf32>
module @op {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @inlined_mesh
// CHECK-SAME: mhlo.num_partitions = 2 : i32
// CHECK: stablehlo.tanh {{.*}} : tensor<4x8xf32>
module @inlined_mesh {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=2]>, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// A divided contraction ends with a sum, and a replicated op begins with a gather.

// CHECK-LABEL: module @collectives
// CHECK: stablehlo.dot {{.*}} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: stablehlo.all_reduce
// CHECK: stablehlo.tanh {{.*}} : tensor<8x8xf32>
module @collectives attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.sine %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x8xf32>
    %1 = stablehlo.sine %y {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = stablehlo.tanh %2 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], replicated={"x"}>]>} : tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
}

// -----

/// Parts of axes, an open dimension with a priority, a mesh in another order of devices, two meshes.

// CHECK-LABEL: module @axes
// CHECK: stablehlo.tanh {{.*}} : tensor<4x4xf32>
// CHECK: stablehlo.sine {{.*}} : tensor<2x8xf32>
// CHECK: stablehlo.all_gather{{.*}}dense<{{\[\[}}0, 2, 1, 3]]>
// CHECK: stablehlo.cosine {{.*}} : tensor<8x8xf32>
module @axes attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  sdy.mesh @turned = <["y"=4], device_ids=[0, 2, 1, 3]>
  func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x":(1)2}, {"x":(2)2}]>]>} : tensor<8x8xf32>
    %1 = stablehlo.sine %y {sdy.sharding = #sdy.sharding_per_value<[<@turned, [{"y", ?}p1, {?}]>]>} : tensor<8x8xf32>
    %2 = stablehlo.cosine %1 {sdy.sharding = #sdy.sharding_per_value<[<@turned, [{}, {}]>]>} : tensor<8x8xf32>
    return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Each result of an op has its own sharding; a token has none.

// CHECK-LABEL: module @results
// CHECK: -> (tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x8xf32>)
// CHECK: stablehlo.infeed{{.*}}]]}> : (!stablehlo.token) -> (tensor<4x8xf32>, !stablehlo.token)
module @results attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>, %t: !stablehlo.token) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0:2 = stablehlo.custom_call @kernel(%x) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, <@mesh, [{}, {"x"}]>]>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
    %1:2 = "stablehlo.infeed"(%t) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, <@mesh, []>]>} : (!stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token)
    return %0#0, %0#1, %1#0 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// The values of a loop have the sharding of its result, also where nothing uses the result.

// CHECK-LABEL: module @loop
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<4x8xf32>, tensor<f32>
// CHECK: stablehlo.tanh {{.*}} : tensor<4x8xf32>
// CHECK: stablehlo.all_reduce
module @loop attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<f32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<5> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %s = stablehlo.constant dense<0.0> : tensor<f32>
    %0:3 = stablehlo.while(%i = %c, %y = %x, %sum = %s) : tensor<i32>, tensor<8x8xf32>, tensor<f32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}, {}]>, <@mesh, []>]>} cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.tanh %y : tensor<8x8xf32>
      %r = stablehlo.reduce(%z init: %s) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
      %next = stablehlo.add %sum, %r : tensor<f32>
      stablehlo.return %j, %z, %next : tensor<i32>, tensor<8x8xf32>, tensor<f32>
    }
    return %0#2 : tensor<f32>
  }
}

// -----

/// Branches return the sharding of the op; XLA refuses branches that differ.

// CHECK-LABEL: module @branches
// CHECK: stablehlo.case
// CHECK: stablehlo.tanh {{.*}} : tensor<4x8xf32>
// CHECK: stablehlo.sine {{.*}} : tensor<8x4xf32>
// CHECK: stablehlo.all_to_all
module @branches attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%i: tensor<i32>, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = "stablehlo.case"(%i) ({
      %1 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }, {
      %1 = stablehlo.sine %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<i32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Called functions: on an op, on the call, on arguments and results.

// CHECK-LABEL: module @calls
// CHECK: @main(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
module @calls attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %z: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = call @inside(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = call @plain(%y) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = call @boundary(%z) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  func.func private @inside(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @plain(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.sine %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @boundary(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.cosine %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @hlo_boundary
// CHECK: @main(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32>
module @hlo_boundary attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = call @boundary(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @boundary(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.cosine %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// The axes of a manual computation that are not manual, and an op beside it.

// CHECK-LABEL: module @manual
// CHECK: stablehlo.tanh {{.*}} : tensor<4x4xf32>
// CHECK: stablehlo.sine {{.*}} : tensor<8x2xf32>
module @manual attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%y: tensor<4x8xf32>) {
      %1 = stablehlo.tanh %y {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = stablehlo.sine %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x", "y"}]>]>} : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

/// A group of values shares the sharding of one of them.

// CHECK-LABEL: module @group
// CHECK: @main(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
module @group attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    %1 = stablehlo.sine %y : tensor<8x8xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8x8xf32>
    sdy.sharding_group %1 group_id=0 : tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// What Shardy writes after its propagation: its collectives become those of XLA's partitioner.

// CHECK-LABEL: module @propagated
// CHECK: stablehlo.tanh {{.*}} : tensor<4x8xf32>
// CHECK-NEXT: stablehlo.all_gather
// CHECK-NEXT: stablehlo.dot {{.*}} : (tensor<8x4xf32>, tensor<4x8xf32>)
// CHECK-NEXT: stablehlo.all_reduce
// CHECK-NOT: stablehlo.all_
module @propagated attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %z: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    %1 = sdy.all_gather [{"x"}, {}] %0 out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
    %2 = stablehlo.dot_general %y, %z, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = sdy.all_reduce {"x"} %2 out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
    return %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Shardings of HLO beside those of Shardy, on an argument, on ops and in a tuple.

// CHECK-LABEL: module @both
// CHECK: @main(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>)
module @both attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%w: tensor<8x8xf32>, %x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}, %y: tensor<8x8xf32> {mhlo.sharding = "{replicated}", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %z: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.tanh %w {mhlo.sharding = "{devices=[2,1]<=[2]}"} : tensor<8x8xf32>
    %1 = stablehlo.tanh %x : tensor<8x8xf32>
    %2 = stablehlo.tanh %y : tensor<8x8xf32>
    %3:2 = stablehlo.custom_call @kernel(%z) {mhlo.sharding = "{{devices=[2,1]<=[2]}, {devices=[1,2]<=[2]}}"} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
    return %0, %1, %2, %3#0, %3#1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A mesh that nothing uses leaves the shardings of HLO as they are.

// CHECK-LABEL: module @unused_mesh
// CHECK: @main(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32>
module @unused_mesh attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[2,1]<=[2]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// Forms of HLO's shardings: of version 1, with types of subgroups, with a mesh, of one device, serialised.

// CHECK-LABEL: module @forms
// CHECK-SAME: mhlo.num_partitions = 4 : i32
// CHECK: @main(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<8x8xf32>, %{{.*}}: tensor<2x8xf32>)
module @forms {
  func.func @main(%w: tensor<8x8xf32>, %x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %z: tensor<8x8xf32>, %s: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.tanh %w {mhlo.sharding = "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"} : tensor<8x8xf32>
    %1 = stablehlo.tanh %x {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dims={replicated}}"} : tensor<8x8xf32>
    %2 = stablehlo.tanh %y {mhlo.sharding = "{mesh['a'=2,'b'=2], [{'a'}, {}]}"} : tensor<8x8xf32>
    %3 = stablehlo.tanh %z {mhlo.sharding = "{maximal device=1}"} : tensor<8x8xf32>
    %4 = stablehlo.tanh %s {mhlo.sharding = "\08\03\1A\02\04\01\22\04\00\01\02\03"} : tensor<8x8xf32>
    return %0, %1, %2, %3, %4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// One value of several may be divided alone.

// CHECK-LABEL: module @tuple
// CHECK: stablehlo.infeed{{.*}} -> (tensor<4x8xf32>, !stablehlo.token)
module @tuple attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%t: !stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token) {
    %0:2 = "stablehlo.infeed"(%t) {mhlo.sharding = "{{devices=[2,1]<=[2]}, {replicated}}"} : (!stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token)
    return %0#0, %0#1 : tensor<8x8xf32>, !stablehlo.token
  }
}
