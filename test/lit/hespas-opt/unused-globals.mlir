// RUN: hespas-opt %s | filecheck %s
// RUN: hespas-opt %s --allow-unregistered-dialect --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: not hespas-opt %S/Inputs/used-global.mlir 2>&1 | filecheck %s --check-prefix=USED

/// torch-mlir writes a seed at the start of a module, which most programs do not use. jaxlib has no dialect of it.

// CHECK-NOT: ml_program
// CHECK: stablehlo.tanh
// GENERIC-NOT: sym_name = "first"
// GENERIC: "ml_program.global"() {{.*}}sym_name = "third"
// GENERIC: "stablehlo.tanh"
// USED: used-global.mlir:1:1: error: Dialect `ml_program' not found {{.*}}; lower the program from ml_program to StableHLO first
module attributes {torch.debug_module_name = "Model"} {
  ml_program.global private mutable @first(dense<0> : tensor<i64>) : tensor<i64>
  ml_program.global private @"second one"(dense<0> : tensor<i64>) : tensor<i64>
  "ml_program.global"() <{sym_name = "third", type = tensor<i64>, value = dense<0> : tensor<i64>}> : () -> ()
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
