// RUN: hespas-opt %s --split-input-file --verify-diagnostics --prepare --split-linear --roofline-annotate=node=A100_SXM_40GB
// RUN: not hespas-opt %s --split-input-file --verify-diagnostics --prepare --split-linear 2>&1 | filecheck %s --check-prefix=UNMET
// RUN: hespas-opt --verify-diagnostics=only-expected %s --split-input-file --prepare --split-linear --roofline-annotate=node=A100_SXM_40GB | filecheck %s --check-prefix=OUTPUT

/// The parts without an error are printed, if all diagnostics are as expected.
// UNMET-NOT: module
// UNMET: has no cost rule {{.*}} was not produced
// UNMET-NOT: module
// OUTPUT: stablehlo.while
// OUTPUT: // -----
// OUTPUT: hespas.trips_found = 3

/// The diagnostics of hespas and of MLIR: errors, warnings and notes, with regular expressions.
func.func @main(%p: tensor<i1>, %a: tensor<8xf32>) -> tensor<8xf32> {
  // expected-warning @+1 {{the trip count of the loop depends on data: 1 is assumed}}
  %0:2 = stablehlo.while(%x = %a, %q = %p) : tensor<8xf32>, tensor<i1>
  cond { stablehlo.return %q : tensor<i1> } do {
    %1 = stablehlo.add %x, %x : tensor<8xf32>
    stablehlo.return %1, %q : tensor<8xf32>, tensor<i1>
  }
  return %0#0 : tensor<8xf32>
}

// -----

func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error-re @below {{custom call {{.*}} has no cost rule {{.*}} declare {{(its|the)}} work}}
  %0 = stablehlo.custom_call @scaled_product(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// Several comments may stand before or after one op.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-note @below {{prior use here}}
  // expected-error @+3 {{expects different type than prior uses}}
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  // A line without a comment of an expected diagnostic.
  %1 = stablehlo.tanh %0 : tensor<7xf32>
  return %1 : tensor<8xf32>
}

// -----

/// The note of MLIR that prints the op of an error is not expected.
func.func @main(%x: tensor<8xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{op requires the same shape}}
  %0 = stablehlo.add %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-note @+1 {{prior use here}}
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  // expected-error @+1 {{use of value '%0' expects different type than prior uses}}
  %1 = stablehlo.tanh %0 : tensor<7xf32>
  return %1 : tensor<8xf32>
}

// -----

module attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}} {
  func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    // expected-remark @+1 {{hespas.trips is brought up to date}}
    %0:2 = stablehlo.while(%i = %z, %x = %a) : tensor<i32>, tensor<8xf32> attributes {hespas.trips = 7}
    cond {
      %t = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %1 = stablehlo.add %x, %x : tensor<8xf32>
      %j = stablehlo.add %i, %c : tensor<i32>
      stablehlo.return %j, %1 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
