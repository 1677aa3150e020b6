// RUN: not hespas-opt %s --roofline-annotate=A100_SXM_40GB 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not hespas-opt %s -p "xla-optimize{h100-80gb}" 2>&1 | filecheck %s --check-prefix=PIPELINE
// RUN: not hespas-opt %s --split-linear=64 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not hespas-opt %s --emit-chakra=/a/b 2>&1 | filecheck %s --check-prefix=PATH
// RUN: not hespas-opt %s --strip-costs=all 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not hespas-opt %s --prepare=dims=x=4,y=5 2>&1 | filecheck %s --check-prefix=COMMA
// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB,H100_80GB 2>&1 | filecheck %s --check-prefix=LIST
// RUN: not hespas-opt %s "--roofline-annotate={node=H100_80GB}" 2>&1 | filecheck %s --check-prefix=BRACES
// RUN: not hespas-opt %s "--roofline-annotate{node=H100_80GB}" 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: not hespas-opt %s --roofline-annotate=node:H100_80GB 2>&1 | filecheck %s --check-prefix=COLON
// RUN: not hespas-opt %s "--roofline-annotate=node={H100_80GB" 2>&1 | filecheck %s --check-prefix=OPEN
// RUN: not hespas-opt %s --roofline-annotate node=H100_80GB 2>&1 | filecheck %s --check-prefix=WORD
// RUN: not hespas-opt %s --roofline-annotate --node=H100_80GB 2>&1 | filecheck %s --check-prefix=MISPLACED
// RUN: not hespas-opt %s --block-limit=3 --cse 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not hespas-opt %s -p "roofline-annotate=node=H100_80GB" 2>&1 | filecheck %s --check-prefix=EQUALS
// RUN: not hespas-opt %s -p "split-linear(block-limit=64)" 2>&1 | filecheck %s --check-prefix=BRACKETS
// RUN: not hespas-opt %s -p "split-linear cse,emit-chakra roofline-annotate" 2>&1 | filecheck %s --check-prefix=SPACE
// RUN: not hespas-opt %s --keep-going=yes 2>&1 | filecheck %s --check-prefix=SWITCH
// RUN: not hespas-opt %s --cse=foo 2>&1 | filecheck %s --check-prefix=FOREIGN

/// Who writes an option in another form is told how it is written.

// VALUE: roofline-annotate has no option 'A100_SXM_40GB'; did you mean 'node=A100_SXM_40GB'?
// PIPELINE: xla-optimize has no option 'h100-80gb'; did you mean 'target=H100_80GB'?
// NUMBER: split-linear has no option '64'; write NAME=64 with the name of an option: block-limit, separator, separator-policy
// PATH: cannot read the options from '/a/b'; write NAME=/a/b with the name of an option
// NONE: strip-costs has no option 'all'; it has no options
// COMMA: y{{.*}}; a value with a comma is quoted: dims="x=4,y=5"
// LIST: H100_80GB{{.*}}; a value with a comma is quoted: node="A100_SXM_40GB,H100_80GB"
// BRACES: cannot read the options from '{node=H100_80GB}'; write node=H100_80GB
// FLAG: the options of --roofline-annotate stand in braces; write --roofline-annotate=node=H100_80GB
// COLON: cannot read the options from ':H100_80GB'; write node=H100_80GB
// OPEN: the value of option 'node' has no end: {H100_80GB
// WORD: unrecognized arguments: node=H100_80GB; the options of a pass follow '=': --roofline-annotate=node=H100_80GB
// OPTION: there is no option or pass --block-limit; it is an option of passes, --PASS=block-limit={{VALUE}}: split-individual, split-linear
// MISPLACED: there is no option or pass --node; did you mean --roofline-annotate=node=H100_80GB?
// EQUALS: cannot read the pass 'roofline-annotate=node=H100_80GB'; write roofline-annotate{node=H100_80GB}
// BRACKETS: cannot read the pass 'split-linear(block-limit=64)'; write split-linear{block-limit=64}
// SPACE: cannot read the pass 'split-linear cse'; separate passes by commas: split-linear,cse
// SWITCH: --keep-going takes no value; leave out '=yes'
// FOREIGN: no such option foo; MLIR documents its options: NAME=VALUE, separated by spaces

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
