// RUN: hespas-opt %s --write-trip-counts --verify-diagnostics

/// The count of a loop changes in the loop around it, which never ends, or runs too often to look at each time: it does not
/// depend on data.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  // expected-warning @+1 {{the trip count of the loop is infinite}}
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
   cond {
    %t = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    // expected-warning @+1 {{the trip count of the loop changes in the loops around it, which run more than 2,000 times or never end: 1 is assumed}}
    %1:2 = stablehlo.while(%j = %i, %w = %v) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %k = stablehlo.add %j, %one : tensor<i32>
      %n = stablehlo.negate %w : tensor<8xf32>
      stablehlo.return %k, %n : tensor<i32>, tensor<8xf32>
    }
    %k = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %k, %1#1 : tensor<i32>, tensor<8xf32>
  }
  return %0#1 : tensor<8xf32>
}
