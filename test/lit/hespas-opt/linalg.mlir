// RUN: hespas-opt %s --stablehlo-legalize-to-linalg -o %t.mlir
// RUN: hespas-opt %t.mlir | filecheck %s
// RUN: hespas-opt %t.mlir --emit-bytecode | hespas-opt | filecheck %s
// RUN: not hespas-opt %t.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB 2>&1 | filecheck %s --check-prefix=COST

/// What a pass of StableHLO writes can be read back, although the bindings register linalg with passes only.

// CHECK: tensor.empty
// CHECK: linalg.generic {indexing_maps = [#map, #map, #map]
// CHECK: linalg.yield
// COST: error: 'tensor.empty': there is no cost rule for this op; lower it to StableHLO, or declare the work of tensor.empty
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
