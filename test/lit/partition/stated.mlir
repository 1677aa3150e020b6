// RUN: hespas-opt %s --partition 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s --check-prefix PREPARED

/// HLO has no place for what somebody states of an op; XLA carries it as a frontend attribute. What it cannot carry is named.

// PREPARED-NOT: assumed
// PREPARED: hespas.trips_note = "trip count from the module"

// CHECK: warning: XLA's partitioner has dropped attributes of other dialects: hespas.kernel (ops: 1)
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<i1>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<4x8xf32>)
// CHECK: stablehlo.while
// CHECK-SAME: attributes {hespas.trips = 100 : i64}
// CHECK: stablehlo.custom_call @acme_kernel
// CHECK-SAME: hespas.kernel_cost = {bytes = 64 : i64, flops = 9 : i64}
// CHECK-SAME: mhlo.frontend_attributes = {acme = "kept"}}
// CHECK: stablehlo.custom_call @acme_reduce
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>, kind = "all_reduce", operand_bytes = 256 : i64, result_bytes = 256 : i64}
// CHECK: "stablehlo.case"
// CHECK: {hespas.branch = 1 : i64}
// CHECK-NOT: hespas
module attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%p: tensor<i1>, %n: tensor<i32>, %x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x8xf32> {
    %0:2 = stablehlo.while(%y = %x, %q = %p) : tensor<8x8xf32>, tensor<i1> attributes {hespas.trips = 100 : i64}
    cond { stablehlo.return %q : tensor<i1> } do {
      %1 = stablehlo.tanh %y : tensor<8x8xf32>
      stablehlo.return %1, %q : tensor<8x8xf32>, tensor<i1>
    }
    %2 = stablehlo.custom_call @acme_kernel(%0#0) {hespas.kernel_cost = {flops = 9 : i64, bytes = 64 : i64}, mhlo.frontend_attributes = {acme = "kept"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %sum = stablehlo.custom_call @acme_reduce(%2) {hespas.comm = {groups = array<i64: 1>, kind = "all_reduce", operand_bytes = 256 : i64, result_bytes = 256 : i64}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "stablehlo.case"(%n) ({
      %4 = stablehlo.sine %sum : tensor<8x8xf32>
      stablehlo.return %4 : tensor<8x8xf32>
    }, {
      %4 = stablehlo.cosine %sum : tensor<8x8xf32>
      stablehlo.return %4 : tensor<8x8xf32>
    }) {hespas.branch = 1 : i64} : (tensor<i32>) -> tensor<8x8xf32>
    %5 = stablehlo.tanh %3 {hespas.kernel = {kind = "gemm"}} : tensor<8x8xf32>
    return %5 : tensor<8x8xf32>
  }
}
