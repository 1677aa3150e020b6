// RUN: hespas-opt %s --cse --split-linear=block-limit=2 --print-pipeline --disable-output 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: hespas-opt %s -p "builtin.module(cse, split-linear{block-limit=2})" --print-pipeline --disable-output 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: hespas-opt %s -p "builtin.module(cse), builtin.module(split-linear{block-limit=2})" --print-pipeline --disable-output 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: not hespas-opt %s -p "cse),func.func(cse" 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not hespas-opt %s.missing -p "op-stats{output='a (1) \"b\".json'}" --print-pipeline 2>&1 | filecheck %s --check-prefix=QUOTES
// RUN: hespas-opt %s --cse --mlir-print-ir-after=cse --disable-output 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: hespas-opt %s --prepare --mlir-print-ir-after=annotate-collectives --disable-output 2>&1 | filecheck %s --check-prefix=LISTED
// RUN: hespas-opt %s --split-linear --timing --disable-output 2>&1 | filecheck %s --check-prefix=TIME
// RUN: hespas-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: hespas-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=LOC
// RUN: hespas-opt %s --emit-bytecode | hespas-opt - | filecheck %s --check-prefix=BACK
// RUN: not hespas-opt %s --split-liner 2>&1 | filecheck %s --check-prefix=NEAR
// RUN: not hespas-opt %s --split-linear=limit=2 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not hespas-opt %s -p "split-linear{" 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not hespas-opt %s --mlir-print-ir-after=cse 2>&1 | filecheck %s --check-prefix=NOTTHERE
// RUN: not hespas-opt %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: hespas-opt --help | filecheck %s --check-prefix=HELP
// RUN: hespas-opt --version | filecheck %s --check-prefix=VERSION

// ORDER: cse,split-linear{block-limit=2}
/// A value is printed in quotes that it does not contain, so that it can be read back.
// QUOTES: op-stats{output='a (1) "b".json'}
// AFTER: IR Dump After cse
// AFTER: stablehlo.add
// LISTED: IR Dump After annotate-collectives
// LISTED: hespas.target
// TIME: s {{.*}} %  read
// TIME-NEXT: s {{.*}} %  prepare
// TIME-NEXT: s {{.*}} %    check-input
// TIME: s {{.*}} %    choose-branches
// TIME-NEXT: s {{.*}} %  split-linear
// TIME-NEXT: s {{.*}} %  print
// TIME-NEXT: s {{.*}} %  rest
// TIME-NEXT: s 100.0 %  total
// GENERIC: "stablehlo.add"(
// LOC: loc("{{.*}}pipeline.mlir":
// BACK: stablehlo.add
// NEAR: error: there is no option or pass --split-liner; did you mean 'split-linear'?
// OPTION: error: split-linear has no option 'limit'; did you mean 'block-limit'?
// SYNTAX: error: unbalanced brackets
// NOTTHERE: error: --mlir-print-ir-after: 'cse' is not in the pipeline
// MISSING: pipeline.mlir.missing: error: cannot read it: No such file or directory
// HELP: --emit-chakra
// HELP: --prepare
// HELP: --split-linear
// HELP-NEXT: Outline each sequence
// HELP: block-limit: maximum number of ops in a region; 0: no limit (default 0)
// VERSION: hespas-opt 0.1

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
