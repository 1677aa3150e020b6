// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB,kernel-cost=kernel=10:100 --mlir-print-local-scope | filecheck %s

/// Another tool may state a location in an attribute, which the bindings cannot represent. It stays, and is a part of what a
/// custom call is.
// CHECK-LABEL: func.func @main
// CHECK: call @region_0
// CHECK-NOT: call
// CHECK-LABEL: func.func private @region_0
// CHECK: stablehlo.custom_call @kernel{{.*}} {guest.origin = loc("a"), hespas.cost = {{.*}}digest = "[[FIRST:[0-9a-f_]+]]"
// CHECK-NEXT: stablehlo.custom_call @kernel{{.*}} {guest.origin = loc("b"), hespas.cost = {{.*}}digest
// CHECK-NOT: [[FIRST]]
// CHECK: stablehlo.tanh {{.*}}guest.origin = loc("c":1:2)
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.custom_call @kernel(%x) {guest.origin = loc("a")} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.custom_call @kernel(%0) {guest.origin = loc("b")} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.tanh %1 {guest.origin = loc("c":1:2)} : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
