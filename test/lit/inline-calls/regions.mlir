// RUN: hespas-opt %s --split-linear --inline-calls | filecheck %s --check-prefix=EQUAL
// RUN: hespas-opt %s --split-linear | sed 's/@region_1(%%3, %%0/@region_1(%%3, %%c/' | hespas-opt --prepare --prepare 2>&1 | filecheck %s

/// Two equal regions share a function. If another pass gives one call another bound, it gets a copy of its own.

// EQUAL-COUNT-2: call @region_1(
// EQUAL-NOT: @region_1_0

// CHECK: hespas.trips is brought up to date: stablehlo.while ({{.*}}): 6 to 3
// CHECK: call @region_1(%{{.*}}, %[[SIX:.*]]) {hespas.region = {digest = "[[DIGEST:.*]]", id = 1
// CHECK: call @region_1_0(%{{.*}}, %c) {hespas.region = {
// CHECK: func.func private @region_1(
// CHECK: hespas.trips = 6 : i64
// CHECK: func.func private @region_1_0(
// CHECK: hespas.trips = 3 : i64
// CHECK-NOT: func.func
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %six = stablehlo.add %three, %three : tensor<i32>
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %1:2 = stablehlo.while(%i = %zero, %y = %0) : tensor<i32>, tensor<64x64xf32> cond {
      %5 = stablehlo.compare LT, %i, %six, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %5 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %5 : tensor<i32>, tensor<64x64xf32>
    }
    %2 = stablehlo.tanh %1#1 : tensor<64x64xf32>
    %3 = "stablehlo.collective_permute"(%2) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>}> : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %4:2 = stablehlo.while(%i = %zero, %y = %3) : tensor<i32>, tensor<64x64xf32> cond {
      %6 = stablehlo.compare LT, %i, %six, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %6 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %6 : tensor<i32>, tensor<64x64xf32>
    }
    %5 = stablehlo.tanh %4#1 : tensor<64x64xf32>
    return %5 : tensor<64x64xf32>
  }
}
