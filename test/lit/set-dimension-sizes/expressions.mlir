// RUN: hespas-opt %s '--set-dimension-sizes=dims="a=7,b=2"' --split-input-file | filecheck %s

/// A framework names dimensions by expressions of its symbols.

// CHECK: @main(%{{.*}}: tensor<7x9x5x14x49xf32>, %{{.*}}: tensor<3x1x7x12xf32>)
module {
  func.func public @main(%x: tensor<?x?x?x?x?xf32>, %y: tensor<?x?x?x?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @plain(%true) {error_message = "no shape"} : (tensor<i1>) -> ()
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (a, a + b, a - b, 2*a, a**b), args[1].shape = (a // b, a % b, -b + 9, 12)"} : (tensor<i1>) -> ()
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (c, d, e, f, g), args[1].shape = (h, i, j, k)"} : (tensor<i1>) -> ()
    return
  }
}

// -----

/// JAX writes functions, and powers with a caret.

// CHECK: @main(%{{.*}}: tensor<7x3x1xf32>, %{{.*}}: tensor<7x2x98x4xf32>)
module {
  func.func public @main(%x: tensor<?x?x?xf32>, %y: tensor<?x?x?x4xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (a, floordiv(a, b), mod(a, floordiv(a, 2))), args[1].shape = (max(a, 5), min(a, b), 2*a^2, 4). Obtained dimension variables"} : (tensor<i1>) -> ()
    return
  }
}

// -----

/// The largest powers that are computed: exponent times bits of the base is 63 at most.

// CHECK: @main(%{{.*}}: tensor<2147483648xf32>, %{{.*}}: tensor<1xf32>, %{{.*}}: tensor<18014398509481984xf32>)
module {
  func.func public @main(%x: tensor<?xf32>, %y: tensor<?xf32>, %z: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b^31), args[1].shape = (a*b^0 - 6), args[2].shape = (64^9)"} : (tensor<i1>) -> ()
    return
  }
}
