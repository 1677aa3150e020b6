// RUN: hespas-opt %s --prepare --split-input-file | filecheck %s
// RUN: hespas-opt %s --prepare --prepare --split-input-file | filecheck %s

/// Which branch runs is known at run time only: the one that sends most bytes is assumed.

// CHECK-LABEL: module @sends
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64}
module @sends attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.tanh %x : tensor<256xf32>
      %2 = stablehlo.tanh %1 : tensor<256xf32>
      stablehlo.return %2 : tensor<256xf32>
    }, {
      %1 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %1 : tensor<256xf32>
    }) : (tensor<i1>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// Of branches that send equally much, the one with most work: bytes, and operations as bytes. A loop counts once per trip, a call as what it calls.

// CHECK-LABEL: module @works
// CHECK: "stablehlo.case"
// CHECK: }) {hespas.branch = 2 : i64, hespas.branch_found = 2 : i64}
module @works {
  func.func @main(%i: tensor<i32>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %1 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %1 : tensor<256xf32>
    }, {
      %n = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%k = %n, %v = %x) : tensor<i32>, tensor<256xf32>
        cond {
          %end = stablehlo.constant dense<3> : tensor<i32>
          %c = stablehlo.compare LT, %k, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %k1 = stablehlo.add %k, %one : tensor<i32>
          %v1 = stablehlo.tanh %v : tensor<256xf32>
          stablehlo.return %k1, %v1 : tensor<i32>, tensor<256xf32>
        }
      stablehlo.return %r#1 : tensor<256xf32>
    }, {
      %1 = stablehlo.tanh %x : tensor<256xf32>
      %2 = stablehlo.tanh %1 : tensor<256xf32>
      stablehlo.return %2 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// A statement of somebody holds.

// CHECK-LABEL: module @stated
// CHECK: }) {hespas.branch = 0 : i64} :
module @stated {
  func.func @main(%p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %1 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %1 : tensor<256xf32>
    }) {hespas.branch = 0 : i64} : (tensor<i1>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}
