// RUN: hespas-opt %s --prepare=trip-count=error --split-input-file --verify-diagnostics

/// The function is checked before it is inlined: its first block is not the whole of it.

func.func public @main(%x: tensor<f32>, %p: i1) -> tensor<f32> {
  %0 = call @f(%p, %x) : (i1, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error @+1 {{the function @f has more than one block; express its control flow with stablehlo.while, if and case}}
func.func private @f(%p: i1, %x: tensor<f32>) -> tensor<f32> {
  cf.cond_br %p, ^bb1(%x : tensor<f32>), ^bb2
^bb1(%0: tensor<f32>):
  return %0 : tensor<f32>
^bb2:
  cf.br ^bb1(%x : tensor<f32>)
}

// -----

/// The option is that of the pass that writes trip counts.

func.func public @main(%n: tensor<i32>) -> tensor<i32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  // expected-error @+1 {{the trip count of the loop depends on data; set trip-count=N}}
  %0 = stablehlo.while(%i = %c) : tensor<i32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j : tensor<i32>
  }
  return %0 : tensor<i32>
}
