// RUN: hespas-opt %s --inline-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --inline-calls --inline-calls --split-input-file | filecheck %s

/// Of the calls of a region function, those that are equal share a copy.

// CHECK-LABEL: module @shared
// CHECK: call @region_0(%arg0, %[[THREE:.*]])
// CHECK-NEXT: call @region_0_0(%{{.*}}, %[[SEVEN:.*]])
// CHECK-NEXT: call @region_0(%{{.*}}, %[[THREE]])
// CHECK-NEXT: call @region_0_0(%{{.*}}, %[[SEVEN]])
// CHECK: func.func private @region_0(
// CHECK: func.func private @region_0_0(
// CHECK-NOT: func.func
module @shared attributes {hespas.split = {strategy = "linear"}} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @region_0(%x, %three) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @region_0(%0, %seven) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %2 = call @region_0(%1, %three) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %3 = call @region_0(%2, %seven) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
  func.func private @region_0(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> attributes {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// One that something else than a call names gets no copies.

// CHECK-LABEL: module @named
// CHECK: call @region_0(%arg0, %{{.*}})
// CHECK-NEXT: stablehlo.composite "acme.repeat" %{{.*}} {decomposition = @region_0}
// CHECK: func.func private @region_0(
// CHECK-NOT: func.func
module @named attributes {hespas.split = {strategy = "linear"}} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @region_0(%x, %three) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = stablehlo.composite "acme.repeat" %0, %seven {decomposition = @region_0} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @region_0(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> attributes {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// Copies of the first of two region functions call a function whose calls then differ.

// CHECK-LABEL: module @two
// CHECK-COUNT-2: call @region_0
// CHECK: call @region_1
// CHECK-NOT: call @repeat
module @two attributes {hespas.split = {strategy = "linear"}} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @region_0(%x, %three) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @region_0(%0, %seven) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %2 = call @region_1(%1, %three) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %3 = stablehlo.composite "acme.repeat" %2, %seven {decomposition = @region_1} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
  func.func private @region_0(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> attributes {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} {
    %0 = call @repeat(%x, %n) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @repeat(%0, %n) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @region_1(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> attributes {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
  func.func private @repeat(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}
