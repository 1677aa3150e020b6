// RUN: hespas-opt %s --set-dimension-sizes=dims=n=7 2>&1 | filecheck %s
// RUN: not hespas-opt %s --set-dimension-sizes=dims=m=7 2>&1 | filecheck %s --check-prefix=KNOWN
// RUN: not hespas run --mlir %s --node H100_80GB --dims m=7 --output %t 2>&1 | filecheck %s --check-prefix=TOOL

/// The names are in the message of an assertion, not in attributes of the same name of other ops. The
/// type says the size of a static dimension, whatever its name is.

// CHECK-NOT: warning
// CHECK: func.func public @main(%{{.*}}: tensor<7x0x4xf32>, %{{.*}}: tensor<7xf32>) -> tensor<7x0x4xf32>
// KNOWN: error: prepare: no dimension is named 'm'; known: n, s, t; or set them
// TOOL: error: {{.*}}no dimension is named 'm'; known: n, s, t; or set them with --dims b=8,s=1024, or --dims arg0=8x1024x64
module {
  func.func public @main(%x: tensor<?x0x4xf32>, %y: tensor<?xf32>) -> tensor<?x0x4xf32> {
    %true = stablehlo.constant {error_message = "args[0].shape = (m, 0, 4)"} dense<true> : tensor<i1>
    stablehlo.custom_call @note(%true) {has_side_effect = true} : (tensor<i1>) -> ()
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (n, s, t), args[1].shape = (n,)", has_side_effect = true} : (tensor<i1>) -> ()
    return %x : tensor<?x0x4xf32>
  }
}
