// RUN: not hespas-opt %s --split-input-file --verify-diagnostics --prepare 2>&1 | filecheck %s

/// What is expected and not produced, or produced and not expected, fails, whatever its kind.
func.func @main(%p: tensor<i1>, %a: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: unmet-diagnostics.mlir:[[# @LINE + 3]]: unexpected warning: the trip count of the loop depends on data
  // CHECK-NEXT: unmet-diagnostics.mlir:[[# @LINE + 2]]: expected warning "this text is not in any warning" was not produced
  // expected-warning @+1 {{this text is not in any warning}}
  %0:2 = stablehlo.while(%x = %a, %q = %p) : tensor<8xf32>, tensor<i1>
  cond { stablehlo.return %q : tensor<i1> } do {
    %1 = stablehlo.add %x, %x : tensor<8xf32>
    stablehlo.return %1, %q : tensor<8xf32>, tensor<i1>
  }
  return %0#0 : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: unmet-diagnostics.mlir:[[# @LINE + 1]]: unexpected note: prior use here
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  // expected-error @+1 {{expects different type than prior uses}}
  %1 = stablehlo.tanh %0 : tensor<7xf32>
  return %1 : tensor<8xf32>
}

// -----

/// An error of the right text on another line is another error.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: unexpected error: {{.*}}undeclared SSA value
  // CHECK-NEXT: expected error "undeclared SSA value" was not produced
  // expected-error @+2 {{undeclared SSA value}}
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-NEXT: expected remark "nothing" was not produced
// expected-remark @unknown {{nothing}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

/// The line of @above and @below is the nearest one without such a comment.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: unmet-diagnostics.mlir:[[# @LINE + 4]]: expected error "below" was not produced
  // CHECK-NEXT: unmet-diagnostics.mlir:[[# @LINE + 3]]: expected note "above" was not produced
  // expected-error @below {{below}}
  // expected-note @+1 {{above}}
  return %x : tensor<8xf32>
  // expected-remark @above {{after}}
  // expected-warning @above {{after}}
  // CHECK-NEXT: unmet-diagnostics.mlir:[[# @LINE - 3]]: expected remark "after" was not produced
  // CHECK-NEXT: unmet-diagnostics.mlir:[[# @LINE - 4]]: expected warning "after" was not produced
}
