// RUN: rm -rf %t && mkdir -p %t/case && cp %s %t/case.stablehlo.txt.mlir && touch %t/case/notes
// RUN: cd %t && hespas-opt case.stablehlo.txt.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=TAKEN
// RUN: cd %t && hespas-opt case.stablehlo.txt.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=TAKEN
// RUN: ls %t/case.traces/dev.0.et && not ls %t/case/dev.0.et
// RUN: cd %t && hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output < %s 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: cd %t && hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --mlir-print-debuginfo -o printed.mlir && hespas-opt - --emit-chakra --disable-output < printed.mlir 2>&1 | filecheck %s --check-prefix=PRINTED
// RUN: cd %t && sed 's/@"a model/@"..\/a model/' %s | hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: cd %t && sed 's/@"a model.1"//' %s | hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=NONE
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t/empty --disable-output 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t/given --disable-output 2>&1 | filecheck %s --check-prefix=GIVEN --allow-empty

/// The default folder has the name of the input file without its endings, or another one if somebody else's
/// files are there; a second time it is the same. On the standard input it is the file that the module was read
/// from before, or the name of the module, reduced to what selects no other folder. A folder that is given is
/// not announced, unless ASTRA-sim would take its name for that of a file without communicators.

// TAKEN: emit-chakra: traces in case.traces (output=FOLDER chooses another)
// STDIN: emit-chakra: traces in a_model.1 (output=FOLDER chooses another)
// PRINTED: emit-chakra: traces in names (output=FOLDER chooses another)
// NONE: emit-chakra: traces in module (output=FOLDER chooses another)
// EMPTY-NOT: traces in
// EMPTY: warning: {{.*}}empty: ASTRA-sim reads no communicators from a path that contains 'empty'
// GIVEN-NOT: {{traces in|ASTRA-sim|lack}}
module @"a model.1" {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.tanh %x : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
