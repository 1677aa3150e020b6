// RUN: hespas-opt %s --verify-each=0 --mlir-print-op-generic=true --cse | filecheck %s --check-prefix=GENERIC
// RUN: hespas-opt %s --mlir-print-op-generic --mlir-print-op-generic=false | filecheck %s --check-prefix=PRETTY
// RUN: not hespas-opt %s --verify-each=maybe 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: hespas-opt --split-input-file %s | filecheck %s --check-prefix=PRETTY
// RUN: hespas-opt %s "--split-input-file=// =====" "--output-split-marker=// +++++" | filecheck %s --check-prefix=PARTS
// RUN: not hespas-opt %s --split-input-file= 2>&1 | filecheck %s --check-prefix=SEPARATOR
// RUN: hespas-opt %s --emit-bytecode --emit-bytecode-version=3 | hespas-opt | filecheck %s --check-prefix=PRETTY
// RUN: not hespas-opt %s --emit-bytecode --emit-bytecode-version=99 2>&1 | filecheck %s --check-prefix=VERSION
// RUN: not hespas-opt %s --emit-bytecode-version=3 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not hespas-opt %s --pass-pipeline= 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: not hespas-opt %s -p "" 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: hespas-opt %s -p "builtin.module()" | filecheck %s --check-prefix=PRETTY
// RUN: not hespas-opt %s --show-dialects 2>&1 | filecheck %s --check-prefix=DIALECTS
// RUN: not hespas-opt %s --no-implicit-module 2>&1 | filecheck %s --check-prefix=MODULE
// RUN: not hespas-opt %s --load-pass-plugin=x.so 2>&1 | filecheck %s --check-prefix=PLUGIN

/// Flags of mlir-opt mean here what they mean there, with a value or without, or are refused with what to do.
// GENERIC: "stablehlo.add"
// PRETTY: {{^}}module
// PRETTY: stablehlo.add %
// VALUE: error: --verify-each takes no value; leave out '=maybe'
// PARTS: stablehlo.add
// PARTS: {{^}}// +++++
// PARTS: stablehlo.tanh
// SEPARATOR: error: --split-input-file needs a separator; leave out '='
// VERSION: {{^}}error: --emit-bytecode-version: unsupported version requested 99, must be in range [0,
// TEXT: error: --emit-bytecode-version is for --emit-bytecode; add it
// EMPTY: needs a pipeline; builtin.module() is one without passes
// DIALECTS: error: hespas-opt has no flag --show-dialects of MLIR's tools; hespas reads builtin, func
// MODULE: error: hespas-opt has no flag --no-implicit-module of MLIR's tools; leave it out: a module in the file is the module
// PLUGIN: error: hespas-opt has no flag --load-pass-plugin of MLIR's tools; install a Python package with the entry point hespas.passes
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// =====
func.func private @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
