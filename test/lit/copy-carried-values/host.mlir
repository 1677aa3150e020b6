// RUN: hespas-opt %s --copy-carried-values | filecheck %s

/// A loop writes a layer of its activations to an array of the host in place: nothing is copied.

// CHECK-LABEL: func.func @main
// CHECK-NOT: mhlo.copy
func.func @main(%x: tensor<512xf32>, %host: tensor<8x512xf32>) -> tensor<8x512xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %v = %x, %a = %host) : tensor<i32>, tensor<512xf32>, tensor<8x512xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %layer = stablehlo.reshape %v : (tensor<512xf32>) -> tensor<1x512xf32>
    %b = stablehlo.custom_call @hespas_offload(%a, %layer, %i, %zero) : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
    %w = stablehlo.tanh %v : tensor<512xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %w, %b : tensor<i32>, tensor<512xf32>, tensor<8x512xf32>
  }
  return %r#2 : tensor<8x512xf32>
}
