// RUN: hespas-opt %s --partition --split-input-file | filecheck %s

/// XLA's entry is main: functions of that name, and of the one that replaces it, get others.

// CHECK-LABEL: module @names
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: stablehlo.sine %[[T]]
// CHECK-NOT: func
module @names attributes {mhlo.num_partitions = 2 : i32} {
  func.func @step(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) {
    %0 = call @main(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = call @main_1(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func private @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @main_1(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.sine %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// What JAX writes on arguments and results stays, and the number of replicas, but no sharding.

// CHECK-LABEL: module @donated
// CHECK-SAME: mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 3 : i32
// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32> {jax.arg_info = "x", tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<8xf32>) -> (tensor<4x8xf32> {jax.result_info = "out"}, tensor<8xf32>)
module @donated attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 3 : i32} {
  func.func @main(%x: tensor<8x8xf32> {jax.arg_info = "x", mhlo.sharding = "{devices=[2,1]<=[2]}", tf.aliasing_output = 0 : i32}, %y: tensor<8xf32> {mhlo.sharding = "{replicated}"}) -> (tensor<8x8xf32> {jax.result_info = "out", mhlo.sharding = "{devices=[2,1]<=[2]}"}, tensor<8xf32>) {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    %1 = stablehlo.tanh %y : tensor<8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
  }
}

// -----

/// Copies on some of the devices still divide an array over the others.

// CHECK-LABEL: module @subgroups
// CHECK-SAME: mhlo.num_partitions = 4 : i32
// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32>
module @subgroups {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// The sharding of a result alone divides what it is computed from.

// CHECK-LABEL: module @result
// CHECK-SAME: mhlo.num_partitions = 4 : i32
// CHECK: func.func @main(%{{.*}}: tensor<8x2xf32>) -> tensor<8x2xf32>
module @result {
  func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[1,4]<=[4]}"}) {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// XLA chooses the shardings of arguments and results that have none, and only these.

// CHECK-LABEL: module @chosen
// CHECK: func.func @main(%{{.*}}: tensor<8x8xf32>, %{{.*}}: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>)
// CHECK: stablehlo.add {{.*}} : tensor<4x8xf32>
// CHECK-NEXT: stablehlo.all_gather
module @chosen attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{replicated}"}, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32> {mhlo.sharding = "{replicated}"}) {
    %0 = stablehlo.add %x, %y {mhlo.sharding = "{devices=[2,1]<=[2]}"} : tensor<8x8xf32>
    return %0, %0 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A mesh alone divides nothing.

// CHECK-LABEL: module @mesh_alone
// CHECK: sdy.mesh @mesh = <["x"=2]>
// CHECK: tensor<8x8xf32>
module @mesh_alone {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// An entry of another name is main afterwards.

// CHECK-LABEL: module @renamed
// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32>
module @renamed attributes {mhlo.num_partitions = 2 : i32} {
  func.func @step(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
