// RUN: hespas-opt %s --split-individual=merge --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-individual=merge --split-individual=merge --split-input-file | filecheck %s

/// A program that begins with a collective: what reads it is not merged with what does not.

// CHECK-LABEL: module @collective
// CHECK: "stablehlo.all_gather"
// CHECK-NOT: call
// CHECK: return
module @collective attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>) {
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %a = stablehlo.tanh %g : tensor<16xf32>
    %b = stablehlo.negate %x : tensor<8xf32>
    return %a, %b : tensor<16xf32>, tensor<8xf32>
  }
}

// -----

/// A program that begins with what a collective reads: it stays before the collective, and what the collective does not
/// read comes after.

// CHECK-LABEL: module @operand
// CHECK: stablehlo.tanh
// CHECK: "stablehlo.all_gather"
// CHECK: stablehlo.negate
module @operand attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>) {
    %a = stablehlo.tanh %x : tensor<8xf32>
    %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %b = stablehlo.negate %x : tensor<8xf32>
    return %g, %b : tensor<16xf32>, tensor<8xf32>
  }
}

// -----

/// A program that begins with an op that a wait reads: the wait follows it.

// CHECK-LABEL: module @awaited
// CHECK: stablehlo.tanh
// CHECK-NEXT: stablehlo.optimization_barrier
// CHECK-NEXT: stablehlo.negate
module @awaited {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = stablehlo.tanh %x : tensor<8xf32>
    %w = stablehlo.optimization_barrier {hespas.wait = true} %a : tensor<8xf32>
    %b = stablehlo.negate %w : tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

/// A wait for an argument follows nothing, so that what reads it and what does not are one region.

// CHECK-LABEL: module @argument
// CHECK: stablehlo.optimization_barrier
// CHECK-NEXT: call @region_0({{.*}}ops = 2
module @argument {
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %w = stablehlo.optimization_barrier {hespas.wait = true} %x : tensor<8xf32>
    %a = stablehlo.tanh %w : tensor<8xf32>
    %b = stablehlo.negate %x : tensor<8xf32>
    return %a, %b : tensor<8xf32>, tensor<8xf32>
  }
}
