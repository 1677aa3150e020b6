// RUN: hespas-opt %s --prepare --prepare 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare --split-linear --prepare | filecheck %s --check-prefix=SPLIT
// RUN: hespas-opt %s --prepare=replicas=2 --prepare | filecheck %s --check-prefix=REPLICAS

/// A prepared module stays as it is, with its replicas, trip counts and communicators, and so do the
/// functions of its regions.

// CHECK-NOT: warning
// CHECK: hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}
// CHECK: hespas.trips = 4 : i64
// CHECK-NOT: hespas.trips =
// SPLIT: call @region_0
// SPLIT: func.func private @region_0
// REPLICAS: devices = 2 : i64
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
   cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.tanh %v : tensor<8xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
  }
  %1 = stablehlo.tanh %0#1 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
