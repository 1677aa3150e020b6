// RUN: hespas-opt %s --partition --split-input-file | filecheck %s
// RUN: hespas-opt %s --partition --partition --split-input-file | filecheck %s

/// An axis of one device needs not be manual.

// CHECK-LABEL: module @two
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: stablehlo.tanh %[[X]]
// CHECK-NOT: sdy.manual
module @two attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2, "one"=1]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// XLA's partitioner divides what is more than one manual computation: here with an op after it.

// CHECK-LABEL: module @around
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[A:.*]] = call @[[BODY:.*]](%[[X]])
// CHECK-NEXT: stablehlo.sine %[[A]] : tensor<4xf32>
// CHECK-NOT: sdy.manual
module @around attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.sine %0 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

/// An argument that two operands are, divided and whole.

// CHECK-LABEL: module @again
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[ALL:.*]] = "stablehlo.all_gather"(%[[X]])
// CHECK: call @{{.*}}(%[[X]], %[[ALL]])
// CHECK-NOT: sdy.manual
module @again attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.manual_computation(%x, %x) in_shardings=[<@mesh, [{"x"}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>, %z: tensor<8xf32>) {
      %1 = stablehlo.slice %z [0:4] : (tensor<8xf32>) -> tensor<4xf32>
      %2 = stablehlo.add %y, %1 : tensor<4xf32>
      sdy.return %2 : tensor<4xf32>
    } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// An argument that no operand is.

// CHECK-LABEL: module @unused
// CHECK: func.func @main(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NOT: sdy.manual
module @unused attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32>, %w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Results in another order.

// CHECK-LABEL: module @swapped
// CHECK: %[[R:.*]]:2 = call
// CHECK-NEXT: return %[[R]]#1, %[[R]]#0
// CHECK-NOT: sdy.manual
module @swapped attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0:2 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>, <@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4xf32>
      %2 = stablehlo.sine %y : tensor<4xf32>
      sdy.return %1, %2 : tensor<4xf32>, tensor<4xf32>
    } : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    return %0#1, %0#0 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// An argument with another sharding than its operand, and a result.

// CHECK-LABEL: module @resharded
// CHECK: func.func @main(%{{.*}}: tensor<8x2xf32>) -> tensor<4x4xf32>
// CHECK: "stablehlo.all_to_all"
// CHECK-NOT: sdy.manual
module @resharded attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x4xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%y: tensor<4x4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4x4xf32>
      sdy.return %1 : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// CHECK-LABEL: module @resharded_result
// CHECK: func.func @main(%{{.*}}: tensor<4x4xf32>) -> tensor<8x2xf32>
// CHECK: "stablehlo.all_to_all"
// CHECK-NOT: sdy.manual
module @resharded_result attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%y: tensor<4x4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4x4xf32>
      sdy.return %1 : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

/// A body whose other axis XLA divides.

// CHECK-LABEL: module @partial
// CHECK: stablehlo.tanh %{{.*}} : tensor<4x2xf32>
// CHECK: func.func @main(%{{.*}}: tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK-NOT: sdy.manual
module @partial attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%y: tensor<4x4xf32>) {
      %1 = stablehlo.tanh %y : tensor<4x4xf32>
      sdy.return %1 : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

/// A constant of which every device has its part.

// CHECK-LABEL: module @table
// CHECK: stablehlo.add {{.*}} : tensor<4xf32>
// CHECK: stablehlo.partition_id
// CHECK-NOT: sdy.manual
module @table attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %c = stablehlo.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<8xf32>
    %0 = sdy.manual_computation(%c, %x) in_shardings=[<@mesh, [{"x"}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%t: tensor<4xf32>, %y: tensor<4xf32>) {
      %1 = stablehlo.add %y, %t : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// One argument twice, and another one not at all.

// CHECK-LABEL: module @twice
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CHECK: call @{{.*}}(%[[X]], %[[X]])
module @twice attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%x, %x) in_shardings=[<@mesh, [{"x"}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>, %z: tensor<4xf32>) {
      %1 = stablehlo.add %y, %z : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A body with other ops of Shardy.

// CHECK-LABEL: module @inside
// CHECK-NOT: sdy.propagation_barrier
module @inside attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<4xf32>) {
      %1 = sdy.propagation_barrier %y allowed_direction=NONE : tensor<4xf32>
      %2 = stablehlo.tanh %1 : tensor<4xf32>
      sdy.return %2 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
