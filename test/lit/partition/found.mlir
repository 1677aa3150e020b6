// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s

/// What an earlier prepare has found is no statement: the loop has another bound now.

// CHECK-NOT: {{dropped|which is used}}
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %bound = stablehlo.constant dense<5> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8x8xf32> attributes {hespas.trips = 3 : i64, hespas.trips_found = 3 : i64} cond {
      %1 = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<8x8xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}
