// RUN: hespas-opt %s --inline --split-input-file | filecheck %s
// RUN: hespas-opt %s -p "inline{max-iterations=2}" --split-input-file | filecheck %s
// RUN: hespas-opt %s -p "func.func(cse),builtin.module(inline)" --split-input-file | filecheck %s --check-prefix=AGAIN

/// MLIR's inliner inlines calls of func, which jaxlib's bindings do not let it do by themselves.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: stablehlo.tanh %arg0 :
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: return
// CHECK-NOT: @f
// CHECK: func.func @public
// AGAIN-LABEL: func.func @main
// AGAIN-NOT: call
// AGAIN: func.func @public
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @public(%0) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @public(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @public(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// As MLIR does, it leaves calls of functions that call themselves, or have no body, and calls that are marked.

// CHECK-LABEL: func.func @main
// CHECK: call @marked
// CHECK: call @outside
// CHECK: call @again
// CHECK: func.func private @marked
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "func.call"(%x) <{callee = @marked, no_inline}> : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @outside(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @again(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func private @marked(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @outside(tensor<8xf32>) -> tensor<8xf32>
func.func private @again(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @other(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @again(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// A function of several blocks is inlined, too.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: return
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
^bb1:
  return %x : tensor<8xf32>
}

// -----

/// So are calls in loops and branches.

// CHECK-LABEL: func.func @main
// CHECK-NOT: call
// CHECK: stablehlo.cosine
// CHECK: stablehlo.sine
// CHECK-NOT: @wave
func.func @main(%p: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<8xf32>, tensor<i1>
  cond { stablehlo.return %q : tensor<i1> } do {
    %1 = "stablehlo.if"(%q) ({
      %2 = func.call @wave(%a) : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %2 : tensor<8xf32>
    }, {
      %2 = stablehlo.sine %a : tensor<8xf32>
      stablehlo.return %2 : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    stablehlo.return %1, %q : tensor<8xf32>, tensor<i1>
  }
  return %0#0 : tensor<8xf32>
}
func.func private @wave(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.cosine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
