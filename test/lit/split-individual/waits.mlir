// RUN: hespas-opt %s --split-individual=merge --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-individual=merge --split-individual=merge --split-input-file | filecheck %s

/// An async computation that computes after its collective: what it computes, and what waits for it, are
/// regions before and after the wait, though both depend on the same collective. After the next collective it does not
/// matter who has waited.

// CHECK: "stablehlo.all_gather"
// CHECK: stablehlo.negate {{.*}}id = {{[0-9]+}} : i64}
// CHECK: stablehlo.optimization_barrier {hespas.wait = true}
// CHECK: stablehlo.tanh {{.*}}id = {{[0-9]+}} : i64}
// CHECK: "stablehlo.all_gather"
// CHECK: call @region_{{.*}}ops = 2
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<4xf32>) -> tensor<16xf32> {
    %s = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %d = "mhlo.async_done"(%s) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %t = stablehlo.tanh %d : tensor<8xf32>
    %g = "stablehlo.all_gather"(%t) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %u = stablehlo.exponential %g : tensor<16xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.pad %t, %z, low = [0], high = [8], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<16xf32>
    %v = stablehlo.multiply %u, %p : tensor<16xf32>
    return %v : tensor<16xf32>
  }
}

// -----

/// What is merged at a later level does not depend on who has waited at an earlier one, and waits for one thing follow each
/// other.

// CHECK-LABEL: module @levels
// CHECK: "stablehlo.all_gather"
// CHECK: "stablehlo.all_gather"
// CHECK-NEXT: stablehlo.optimization_barrier
// CHECK-NEXT: stablehlo.optimization_barrier
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: call @region_{{.*}}ops = 2
module @levels attributes {mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %s = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      %b = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
      stablehlo.return %b : tensor<8xf32>
    }) : (tensor<4xf32>) -> !stablehlo.future<tensor<8xf32>>
    %d = "stablehlo.async_done"(%s) : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
    %t = stablehlo.tanh %d : tensor<8xf32>
    %e = stablehlo.optimization_barrier {hespas.wait = true} %d : tensor<8xf32>
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %u = stablehlo.exponential %g : tensor<8xf32>
    %v = stablehlo.add %g, %t : tensor<8xf32>
    return %u, %v, %e : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
