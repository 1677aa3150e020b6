// RUN: hespas-opt %s '--prepare=dims="b=16" trip-count=9 replicas=2' 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare=trip-count=9 --prepare 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: hespas-opt %s --prepare=devices=4 | filecheck %s --check-prefix=FOUR
// RUN: not hespas-opt %s '--prepare=dims="c=16"' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not hespas-opt %s --prepare=trip-count=few 2>&1 | filecheck %s --check-prefix=TRIPS
// RUN: not hespas-opt %s --prepare=devices=-1 2>&1 | filecheck %s --check-prefix=DEVICES
// RUN: not hespas-opt %s --prepare=replicas=-1 2>&1 | filecheck %s --check-prefix=REPLICAS

/// The options of prepare are those of its passes.

// CHECK-NOT: warning
// CHECK: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK: @main(%{{.*}}: tensor<i32>, %{{.*}}: tensor<16xf32>)
// CHECK: hespas.trips = 9 : i64
// TWICE: warning: sizes assumed for symbolic dimensions: b=128
// TWICE-NOT: warning
// TWICE: hespas.trips = 9 : i64
// FOUR: hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}
// NAME: error: prepare: no dimension is named 'c'; known: b

/// A wrong option is an error before any pass runs, and names prepare.

// TRIPS: error: prepare: option 'trip-count' takes a whole number or 'error', not 'few'
// DEVICES: error: prepare: option 'devices' is -1, less than 0
// REPLICAS: error: prepare: option 'replicas' is -1, less than 0
module {
  func.func public @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<i32> {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[1].shape = (b)", has_side_effect = true} : (tensor<i1>) -> ()
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %c) : tensor<i32>
    cond {
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}
