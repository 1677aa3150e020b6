// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB,kernel-cost=acme=100:200 -o %t.mlir
// RUN: hespas-opt %t.mlir --refresh-costs 2>&1 | filecheck %s

/// JAX writes attributes that are equal to their defaults, and the text of a module leaves them out:
/// its costs are still those of its ops.

// CHECK-NOT: changed after the annotation
// CHECK-COUNT-4: digest
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x4xf32> {
  %0:2 = "mhlo.topk"(%x) {k = 4 : i64, largest = true, is_stable = true}
    : (tensor<4x16xf32>) -> (tensor<4x4xf32>, tensor<4x4xi32>)
  %1 = "stablehlo.custom_call"(%0#0) <{call_target_name = "acme", has_side_effect = false, api_version = 1 : i32,
    backend_config = "", called_computations = [], output_operand_aliases = []}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "stablehlo.exponential"(%1) <{result_accuracy =
    #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "stablehlo.cholesky"(%2) <{lower = false}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
