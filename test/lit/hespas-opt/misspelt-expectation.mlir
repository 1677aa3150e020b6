// RUN: not hespas-opt %s --verify-diagnostics 2>&1 | filecheck %s
// RUN: not hespas-opt %s --mlir-print-ir-after=split-liner --split-linear 2>&1 | filecheck %s --check-prefix=PASS

/// A comment that expects nothing would be a check that cannot fail.

// CHECK: misspelt-expectation.mlir:10: error: cannot read what is expected from
// CHECK-SAME: write it as in expected-error @+1
// PASS: error: --mlir-print-ir-after: 'split-liner' is not in the pipeline; did you mean 'split-linear'?
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-warn @+1 {{no cost}}
  return %x : tensor<8xf32>
}
