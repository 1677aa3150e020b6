// RUN: not hespas-opt %s --mlir-print-ir-befor=cse 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not hespas-opt %s -pass-pipeline=cse 2>&1 | filecheck %s --check-prefix=DASH
// RUN: not hespas-opt %s --colour 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not hespas-opt %s --split-liner 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not hespas-opt %s --canonicalise 2>&1 | filecheck %s --check-prefix=NATIVE
// RUN: not hespas-opt %s -p "builtin.module(func.func(roofline-annotate))" 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not hespas-opt %s -p "builtin.module(chlo-legalize-to-stablehlo)" 2>&1 | filecheck %s --check-prefix=EXPLICIT
// RUN: hespas-opt %s -p "builtin.module(func.func(chlo-legalize-to-stablehlo,cse),split-linear)" | filecheck %s --check-prefix=MODULE
// RUN: not hespas-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=REPRODUCER

// OPTION: error: there is no option or pass --mlir-print-ir-befor; did you mean 'mlir-print-ir-before'
// DASH: error: there is no option -pass-pipeline; write it as --pass-pipeline
// UNKNOWN: error: there is no option or pass --colour; hespas-opt --list-passes lists all passes
// PASS: error: there is no option or pass --split-liner; did you mean 'split-linear'?
// NATIVE: error: there is no option or pass --canonicalise; did you mean 'canonicalize'?
// NESTED: error: roofline-annotate is a pass on builtin.module and cannot be nested on func.func; write it beside func.func(...), not in it
// EXPLICIT: error: MLIR rejects the pass 'chlo-legalize-to-stablehlo': {{.*}}restricted to 'func.func'
// MODULE: hespas.split
// REPRODUCER: usage.mlir: error: the file is no reproducer; leave out --run-reproducer

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
