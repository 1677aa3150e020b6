// RUN: hespas-opt %s --remove-misplaced-facts | filecheck %s
// RUN: hespas-opt %s --remove-misplaced-facts --remove-misplaced-facts | filecheck %s

/// In a prepared module, facts of loops, branches and collectives go from ops of other kinds, also in loops and
/// functions; other attributes stay, and facts stay on ops that can have them.

// CHECK-LABEL: module @prepared
// CHECK: %[[T:.*]] = stablehlo.tanh %{{[a-z0-9]*}} {acme.note = 1 : i64} : tensor<4xf32>
// CHECK-NEXT: stablehlo.sine %[[T]] : tensor<4xf32>
// CHECK: stablehlo.while
// CHECK-SAME: attributes {hespas.trips = 3 : i64, hespas.trips_found = 3 : i64, hespas.trips_note = "n"}
// CHECK: stablehlo.abs %{{[^ ]*}} : tensor<4xf32>
// CHECK: "stablehlo.if"
// CHECK: {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64}
// CHECK: "stablehlo.all_gather"
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>}
// CHECK: stablehlo.custom_call @acme
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>, kind = "all_reduce"
// CHECK: call @f(%{{[0-9]*}}) :
// CHECK: func.func private @f
// CHECK-NEXT: stablehlo.cosine %{{[a-z0-9]*}} : tensor<4xf32>
module @prepared attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}} {
  func.func public @main(%x: tensor<4xf32>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.tanh %x {acme.note = 1 : i64, hespas.trips = 3 : i64, hespas.trips_found = 3 : i64, hespas.trips_note = "n"} : tensor<4xf32>
    %1 = stablehlo.sine %0 {hespas.wait = true, hespas.branch = 1 : i64, hespas.branch_found = 1 : i64, hespas.comm = {groups = array<i64: 1>}} : tensor<4xf32>
    %2:2 = stablehlo.while(%q = %p, %y = %1) : tensor<i1>, tensor<4xf32> attributes {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64, hespas.trips = 3 : i64, hespas.trips_found = 3 : i64, hespas.trips_note = "n"}
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %z = stablehlo.abs %y {hespas.trips = 3 : i64} : tensor<4xf32>
      stablehlo.return %q, %z : tensor<i1>, tensor<4xf32>
    }
    %3 = "stablehlo.if"(%p) ({
      stablehlo.return %2#1 : tensor<4xf32>
    }, {
      stablehlo.return %1 : tensor<4xf32>
    }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64, hespas.trips = 3 : i64} : (tensor<i1>) -> tensor<4xf32>
    %4 = "stablehlo.all_gather"(%3) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {groups = array<i64: 1>}} : (tensor<4xf32>) -> tensor<8xf32>
    %5 = stablehlo.custom_call @acme(%4) {hespas.comm = {groups = array<i64: 1>, kind = "all_reduce", operand_bytes = 32 : i64, result_bytes = 32 : i64}} : (tensor<8xf32>) -> tensor<8xf32>
    %6 = call @f(%3) {hespas.trips = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return %6, %4, %5 : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.cosine %x {hespas.comm = {groups = array<i64: 1>}} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
