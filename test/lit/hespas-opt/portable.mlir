// RUN: not hespas-opt %s --stablehlo-legalize-to-vhlo --split-linear 2>&1 | filecheck %s
// RUN: hespas-opt %s --stablehlo-legalize-to-vhlo --vhlo-legalize-to-stablehlo --split-linear | filecheck %s --check-prefix=BACK
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB -o %t.annotated
// RUN: hespas-opt %t.annotated --stablehlo-legalize-to-vhlo --vhlo-to-version=target=1.0.0 --emit-bytecode | hespas-opt | diff - %t.annotated

/// The portable form has functions of its own.
// CHECK: error: 'builtin.module': the module has no public function; convert vhlo.func_v1 with vhlo-legalize-to-stablehlo
// BACK: hespas.split
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
