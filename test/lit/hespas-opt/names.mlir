// RUN: hespas-opt %s --mlir-use-nameloc-as-prefix | filecheck %s
// RUN: hespas-opt %s --mlir-use-nameloc-as-prefix --typed-attributes --split-individual | filecheck %s
// RUN: hespas-opt %s --mlir-elide-resource-strings-if-larger=8 | filecheck %s --check-prefix=ELIDED
// RUN: hespas-opt %s --cse --mlir-disable-threading --mlir-print-ir-module-scope --mlir-print-ir-after-all --disable-output 2>&1 | filecheck %s --check-prefix=SCOPE

/// Values are named after the layers in their locations, and long resources are left out.
// CHECK: func.func @main(%input: tensor<4xf32>)
// CHECK: %hidden = stablehlo.tanh %input

// ELIDED: dense_resource<weights>
// ELIDED-NOT: 0x04000000

/// What mlir-opt prints on request, hespas-opt always prints: the module around a function.
// SCOPE: IR Dump After cse
// SCOPE-NEXT: module
func.func @main(%x: tensor<4xf32> loc("input")) -> tensor<4xf32> {
  %w = stablehlo.constant dense_resource<weights> : tensor<4xf32>
  %0 = stablehlo.tanh %x : tensor<4xf32> loc("hidden")
  %1 = stablehlo.add %0, %w : tensor<4xf32>
  return %1 : tensor<4xf32>
}
{-#
  dialect_resources: { builtin: { weights: "0x040000000000803F000000400000404000008040" } }
#-}
