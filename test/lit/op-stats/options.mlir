// RUN: hespas-opt %s --op-stats=output=%t.txt,expand | filecheck %s
// RUN: filecheck %s --check-prefix=FILE --input-file %t.txt
// RUN: hespas-opt %s --op-stats --op-stats --disable-output 2>&1 | filecheck %s --check-prefix=STDERR
// RUN: not hespas-opt %s --op-stats=format=xml 2>&1 | filecheck %s --check-prefix=FORMAT

/// The module is unchanged; the table goes to a file, or to stderr; a fusion is one op unless expanded.

// CHECK: "mhlo.fusion"
// FILE: stablehlo.tanh
// STDERR: mhlo.fusion
// STDERR: Total Operators{{.*}}: 2
// STDERR: Total Operators{{.*}}: 2
// FORMAT: error: {{.*}}'xml'
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<8xf32>):
    %b = stablehlo.tanh %a : tensor<8xf32>
    mhlo.return %b : tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
