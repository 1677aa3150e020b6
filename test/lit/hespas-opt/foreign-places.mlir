// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --verify-diagnostics 2>&1 | filecheck %s

/// What is expected in a line of this file is not what happens in the same line of the program that it was exported from.

// CHECK: train.py:10: unexpected warning: the trip count of the loop depends on data
// CHECK-NEXT: unexpected error: model.py:13:7: error: 'stablehlo.custom_call': custom call @foo has no cost rule
// CHECK-NEXT: foreign-places.mlir:10: expected warning "trip count" was not produced
func.func @main(%p: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-warning@+1 {{trip count}}
  %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<8xf32>, tensor<i1>
  cond { stablehlo.return %q : tensor<i1> } do { stablehlo.return %a, %q : tensor<8xf32>, tensor<i1> } loc("train.py":10:4)
  // expected-error@+1 {{no cost rule}}
  %1 = stablehlo.custom_call @foo(%x) : (tensor<8xf32>) -> tensor<8xf32> loc("model.py":13:7)
  // CHECK-NEXT: foreign-places.mlir:13: expected error "no cost rule" was not produced
  return %1 : tensor<8xf32>
}
