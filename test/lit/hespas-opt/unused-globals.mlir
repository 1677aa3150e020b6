// RUN: hespas-opt %s | filecheck %s
// RUN: hespas-opt %s --allow-unregistered-dialect --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: hespas-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=PLACES
// RUN: not hespas-opt %S/Inputs/used-global.mlir 2>&1 | filecheck %s --check-prefix=USED

/// torch-mlir writes a seed at the start of a module, which most programs do not use. jaxlib has no dialect of it.

/// They may have several lines, or share one with another op, which stays in its place.

// CHECK: module attributes {ml_program.global = "ml_program.global private @text(1 : i64) : i64", torch.debug_module_name = "Model"}
// CHECK-NOT: ml_program
// CHECK: func.func private @callee
// CHECK: func.func @main
// CHECK: stablehlo.tanh
// CHECK: call @callee
// GENERIC-NOT: sym_name = "first"
// GENERIC: "ml_program.global"() {{.*}}sym_name = "third"
// GENERIC: "stablehlo.tanh"
// USED: used-global.mlir:1:1: error: Dialect `ml_program' not found {{.*}}; lower the program from ml_program to StableHLO first
module attributes {ml_program.global = "ml_program.global private @text(1 : i64) : i64", torch.debug_module_name = "Model"} {
  // ml_program.global private @comment(dense<0> : tensor<i64>) : tensor<i64>
  ml_program.global private mutable @first(dense<0> : tensor<i64>) : tensor<i64>
  ml_program.global private @"second one"(dense<0> : tensor<i64>) : tensor<i64>
  "ml_program.global"() <{sym_name = "third", type = tensor<i64>, value = dense<0> : tensor<i64>}> : () -> ()
  // PLACES: loc("{{.*}}":[[# @LINE + 1]]:80)
  ml_program.global private @callee_seed(dense<0> : tensor<i64>) : tensor<i64> func.func private @callee(tensor<4xf32>) -> tensor<4xf32>
  ml_program.global
    private mutable @fifth(dense<[0,
      1]> : tensor<2xi64>)  // a } in a comment
    : tensor<2xi64> {text = "}"} loc("model.py":1:2)
  ml_program.global public @sixth : () -> i64
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    %1 = func.call @callee(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
