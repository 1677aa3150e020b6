// RUN: not hespas-opt %s --mlir-print-ir-befor=cse 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not hespas-opt %s -pass-pipeline=cse 2>&1 | filecheck %s --check-prefix=DASH
// RUN: not hespas-opt %s --colour 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not hespas-opt %s --split-liner 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not hespas-opt %s --canonicalise 2>&1 | filecheck %s --check-prefix=NATIVE
// RUN: not hespas-opt %s -p "builtin.module(func.func(roofline-annotate))" 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not hespas-opt %s -p "builtin.module(cse,builtin.module(roofline-annotate))" 2>&1 | filecheck %s --check-prefix=IN-ITSELF
// RUN: not hespas-opt %s -p "builtin.module(chlo-legalize-to-stablehlo)" 2>&1 | filecheck %s --check-prefix=EXPLICIT
// RUN: hespas-opt %s -p "builtin.module(func.func(chlo-legalize-to-stablehlo,cse),split-linear)" | filecheck %s --check-prefix=MODULE
// RUN: hespas-opt %s "-psplit-linear,cse" | filecheck %s --check-prefix=MODULE
// RUN: not hespas-opt %s --mlir-print-ir-before=cse 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: not hespas-opt %s -pcsee 2>&1 | filecheck %s --check-prefix=JOINED
// RUN: not hespas-opt %s -print-ir 2>&1 | filecheck %s --check-prefix=PRINT
// RUN: not hespas-opt %s --inline=default-pipeline=cse,csee 2>&1 | filecheck %s --check-prefix=INNER
// RUN: not hespas-opt %s "--inline=max-iterations=2 default-pipeline={canonicalize{topdown=0}}" 2>&1 | filecheck %s --check-prefix=INNER-OPTION
// RUN: not hespas-opt %s --inline=default-pipeline=split-linear 2>&1 | filecheck %s --check-prefix=INNER-PASS
// RUN: not hespas-opt %s -p "inline{default-pipeline=stablehlo-legalize-to-hlo}" 2>&1 | filecheck %s --check-prefix=INNER-MODULE
// RUN: hespas-opt %s "--inline=default-pipeline=canonicalize{top-down=0},cse max-iterations=2" --split-linear | filecheck %s --check-prefix=MODULE
// RUN: not hespas-opt %s --stablehlo-compatibility-expander=target=1.x 2>&1 | filecheck %s --check-prefix=VERSION
// RUN: not hespas-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=REPRODUCER
// RUN: not hespas-opt %s -p "func.func(cse,)" 2>&1 | filecheck %s --check-prefix=NAMELESS
// RUN: hespas-opt %s -p "func.func(),split-linear,func.func( )" | filecheck %s --check-prefix=MODULE
// RUN: not hespas-opt %s -p "builtin.module(func(cse{x={}}))" 2>&1 | filecheck %s --check-prefix=OLD-NAME
// RUN: not hespas-opt %s -p "module(split-linear)" 2>&1 | filecheck %s --check-prefix=OLD-MODULE
// RUN: not hespas-opt %s -p "func.fun(cse)" 2>&1 | filecheck %s --check-prefix=NO-OP
// RUN: hespas-opt %s -p "any(cse),split-linear" --allow-unregistered-dialect | filecheck %s --check-prefix=MODULE

// OLD-NAME: error: no op is named 'func'; write func.func(...)
// OLD-MODULE: error: no op is named 'module'; write builtin.module(...)
// NO-OP: error: no op is named 'func.fun'; passes are nested on ops: func.func(cse)
// NAMELESS: error: an empty pass name in the pipeline 'func.func(cse,)'
// OPTION: error: there is no option or pass --mlir-print-ir-befor; did you mean 'mlir-print-ir-before'
// DASH: error: there is no option -pass-pipeline; write it as --pass-pipeline
// UNKNOWN: error: there is no option or pass --colour; hespas-opt --list-passes lists all passes
// PASS: error: there is no option or pass --split-liner; did you mean 'split-linear'?
// NATIVE: error: there is no option or pass --canonicalise; did you mean 'canonicalize'?
// NESTED: error: roofline-annotate is a pass on builtin.module and cannot be nested on func.func; write it beside func.func(...), not in it
// IN-ITSELF: error: roofline-annotate is a pass on builtin.module and cannot be nested on a builtin.module in the module; write it beside builtin.module(...), not in it
// EXPLICIT: error: MLIR rejects the pass 'chlo-legalize-to-stablehlo': {{.*}}restricted to 'func.func'
// MODULE: hespas.split
// EMPTY: error: --mlir-print-ir-before: 'cse' is not in the pipeline; it has no passes
// JOINED: error: no pass is named 'csee'; did you mean 'cse'?
// PRINT: error: there is no option -print-ir; write it as --print-ir
// INNER: error: no pass is named 'csee'; did you mean 'cse'?
// INNER-OPTION: error: MLIR rejects the pass 'inline{max-iterations=2 default-pipeline={canonicalize{topdown=0}}}': {{.*}}no such option topdown
// INNER-PASS: error: split-linear is a pass on builtin.module and cannot be nested on inline; write it beside inline(...), not in it
// INNER-MODULE: error: MLIR rejects the pass 'inline{default-pipeline=stablehlo-legalize-to-hlo}': {{.*}}restricted to 'builtin.module'
// VERSION: error: MLIR rejects the pass 'stablehlo-compatibility-expander{target=1.x}': Invalid target version argument '1.x'
// REPRODUCER: usage.mlir: error: the file is no reproducer; leave out --run-reproducer

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
