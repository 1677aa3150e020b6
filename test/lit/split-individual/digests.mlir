// RUN: hespas-opt %s --split-individual="merge block-limit=2" --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-individual --split-input-file | filecheck %s --check-prefix=OP
// RUN: hespas-opt %s --split-individual="merge block-limit=2" --split-input-file -o %t.mlir && grep -o "hespas.region = {[^}]*}" %t.mlir > %t.split
// RUN: hespas-opt %t.mlir --roofline-annotate=node=A100_SXM_40GB --split-input-file -o %t.costs.mlir && grep -o "hespas.region = {[^}]*}" %t.costs.mlir | diff %t.split -

/// Regions that differ in the values of constants alone are two functions of one digest, because they cost the same. A pass
/// that reads a split module finds the digests that the split has written.

// CHECK-LABEL: module @constants
// CHECK: call @region_0(%arg0) {hespas.region = {digest = "[[D:[0-9a-f]+]]"
// CHECK: call @region_1(%{{.*}}) {hespas.region = {digest = "[[D]]"
module @constants {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %two = stablehlo.constant dense<2.0> : tensor<8xf32>
    %0 = stablehlo.add %x, %one : tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    %2 = stablehlo.add %1, %two : tensor<8xf32>
    %3 = stablehlo.tanh %2 : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

/// The digest says where ops read and what is read outside.

// CHECK-LABEL: module @flow
// CHECK: call @region_0(%arg0) {hespas.region = {digest = "[[D:[0-9a-f]+]]"
// CHECK-NOT: digest = "[[D]]"
// CHECK: return
module @flow {
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.add %0, %0 : tensor<8xf32>
    %2 = stablehlo.tanh %1 : tensor<8xf32>
    %3 = stablehlo.add %2, %1 : tensor<8xf32>
    %4 = stablehlo.tanh %3 : tensor<8xf32>
    %5 = stablehlo.add %4, %4 : tensor<8xf32>
    return %1, %4, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// The values of constants count where a loop may read them, inside it or outside, though all these loops have eight trips.

// CHECK-LABEL: module @loops
// CHECK: call @region_0(%arg0) {hespas.region = {digest = "[[D:[0-9a-f]+]]"
// CHECK-NOT: digest = "[[D]]"
// CHECK: call @region_1({{.*}}digest = "[[D2:[0-9a-f]+]]"
// CHECK-NOT: digest = "[[D]]"
// CHECK-NOT: digest = "[[D2]]"
// CHECK: return
module @loops {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %step = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    %1 = stablehlo.tanh %0#1 : tensor<8xf32>
    %2:2 = stablehlo.while(%i = %zero, %v = %1) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<16> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %step = stablehlo.constant dense<2> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    %3 = stablehlo.tanh %2#1 : tensor<8xf32>
    %4:2 = stablehlo.while(%i = %one, %v = %3) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<16> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %step = stablehlo.constant dense<2> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    %5 = stablehlo.tanh %4#1 : tensor<8xf32>
    return %5 : tensor<8xf32>
  }
}

// -----

/// What an op calls counts, and what that calls, whatever it is named.

// OP-LABEL: module @calls
// OP: call @f({{.*}}digest = "[[F:[0-9a-f]+]]"
// OP: call @f({{.*}}digest = "[[F]]"
// OP: call @g({{.*}}digest = "[[F]]"
// OP: call @g({{.*}}digest = "[[F]]"
// OP-NOT: digest = "[[F]]"
// OP: call @h({{.*}}digest = "[[H:[0-9a-f]+]]"
// OP: call @h({{.*}}digest = "[[H]]"
// OP: return
module @calls {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @g(%1) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = call @g(%2) : (tensor<8xf32>) -> tensor<8xf32>
    %4 = call @h(%3) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = call @h(%4) : (tensor<8xf32>) -> tensor<8xf32>
    return %5 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @tanh(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @tanh(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @g(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @also_tanh(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @also_tanh(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @h(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @sine(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @sine(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @also_tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @sine(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// The digest says which results of ops leave the region. A name that is none of a function is text.

// CHECK-LABEL: module @results
// CHECK: call @region_0({{.*}}digest = "[[D:[0-9a-f]+]]"
// CHECK-NOT: digest = "[[D]]"
// CHECK: return
module @results {
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%x: tensor<8xf32>, %i: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>, tensor<8xi32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %x, %one {guest.mesh = @mesh} : tensor<8xf32>
    %1:2 = "stablehlo.sort"(%0, %i) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %lt = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) : (tensor<8xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>)
    %2 = stablehlo.add %1#0, %one : tensor<8xf32>
    %3:2 = "stablehlo.sort"(%2, %i) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %lt = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) : (tensor<8xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>)
    return %1#0, %1#1, %3#1 : tensor<8xf32>, tensor<8xi32>, tensor<8xi32>
  }
}

// -----

/// A large constant is an op of its region.

// CHECK-LABEL: module @large
// CHECK: call @region_0() {hespas.region = {digest = "{{[0-9a-f]+}}", id = 0 : i64, ops = 2 : i64}
module @large {
  func.func @main() -> tensor<65xi8> {
    %c = stablehlo.constant dense<"0x0102020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202"> : tensor<65xi8>
    %0 = stablehlo.not %c : tensor<65xi8>
    return %0 : tensor<65xi8>
  }
}
