// RUN: rm -rf %t && mkdir -p %t/case && cp %s %t/case.zst.xz.gz.pb.hlo.vhlo.stablehlo.bc.mlirbc.txt.mlir && touch %t/case/notes
// RUN: cd %t && hespas-opt case.zst.xz.gz.pb.hlo.vhlo.stablehlo.bc.mlirbc.txt.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=TAKEN
// RUN: cd %t && hespas-opt case.zst.xz.gz.pb.hlo.vhlo.stablehlo.bc.mlirbc.txt.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=TAKEN
// RUN: ls %t/case.traces/dev.0.et && not ls %t/case/dev.0.et
// RUN: cd %t && cat %s | hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: cd %t && hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --mlir-print-debuginfo -o printed.mlir && cat printed.mlir | hespas-opt - --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=PRINTED
// RUN: cd %t && hespas-opt printed.mlir --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=RENAMED
// RUN: cd %t && sed 's/@"a model.1"/@m0123456789012345678901234567890123456789012345678901234567890123456789/' %s | hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=LONG
// RUN: cd %t && sed 's/@"a model/@"..\/a model/' %s | hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: cd %t && sed 's/@"a model.1"//' %s | hespas-opt - --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=NONE
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t/empty --disable-output 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t/given --disable-output 2>&1 | filecheck %s --check-prefix=GIVEN --allow-empty

/// The default folder has the name of the input file without its endings, or another one if somebody else's
/// files are there; a second time it is the same. On the standard input it is the file that the module was read
/// from before, or the name of the module, reduced to what selects no other folder and to 60 characters. A folder that is given is
/// not announced, unless ASTRA-sim would take its name for that of a file without communicators.

// TAKEN: emit-chakra: traces in case.traces (output=FOLDER chooses another)
// STDIN: emit-chakra: traces in a_model.1 (output=FOLDER chooses another)
// PRINTED: emit-chakra: traces in names (output=FOLDER chooses another)
// RENAMED: emit-chakra: traces in printed (output=FOLDER chooses another)
// LONG: emit-chakra: traces in m01234567890123456789012345678901234567890123456789012345678 (output=FOLDER chooses another)
// NONE: emit-chakra: traces in module (output=FOLDER chooses another)
// EMPTY-NOT: traces in
// EMPTY: warning: {{.*}}empty: ASTRA-sim reads no communicators from a path that contains 'empty'
// GIVEN-NOT: {{.}}
module @"a model.1" {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.tanh %x : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
