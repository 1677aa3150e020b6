// RUN: hespas-opt %s --split-linear --roofline-annotate="node=A100_SXM_40GB kernel-cost=mine=1000000000:1000000" -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// RUN: hespas-opt %t.mlir --roofline-annotate="node=A100_SXM_40GB kernel-cost=mine=1000000000:1000000" -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir

/// The digest of a region contains the cost that the option states of one of its ops.

// CHECK: call @region_0(%arg0) {hespas.cost = {estimator = "roofline", flops = 1000000000 : i64
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.tanh %x : tensor<64x64xf32>
  %1 = stablehlo.custom_call @mine(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
