// RUN: hespas-opt %s --split-individual=merge --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-individual=merge --split-individual=merge --split-input-file | filecheck %s

/// Ops that no collective separates are one region, though they stand apart; one that reads the
/// collective and one that it reads are others. What %b computes is needed first by the collective, though the
/// exponential reads it before.

// CHECK-LABEL: module @apart
module @apart attributes {mhlo.num_replicas = 2 : i32} {
  // CHECK: %[[B:.*]]:2 = call @region_0(%arg0) {{.*}}ops = 2
  // CHECK: %[[G:.*]] = "stablehlo.all_gather"(%[[B]]#1)
  // CHECK-NEXT: %[[F:.*]]:2 = call @region_1(%arg0, %[[B]]#0) {{.*}}ops = 3
  // CHECK-NEXT: %[[A:.*]] = stablehlo.exponential %[[G]]
  // CHECK-NEXT: return %[[A]], %[[F]]#1, %[[F]]#0
  func.func @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>, tensor<8xf32>) {
    %f = stablehlo.sine %x : tensor<8xf32>
    %b = stablehlo.negate %x : tensor<8xf32>
    %e = stablehlo.exponential %b : tensor<8xf32>
    %c = stablehlo.cosine %b : tensor<8xf32>
    %g = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %a = stablehlo.exponential %g : tensor<16xf32>
    %h = stablehlo.tanh %f : tensor<8xf32>
    return %a, %h, %e : tensor<16xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// What reads the result of an async collective is not merged with what does not.

// CHECK-LABEL: module @async
module @async attributes {mhlo.num_replicas = 2 : i32} {
  // CHECK: "stablehlo.all_gather"
  // CHECK: stablehlo.tanh {{.*}}id = {{[0-9]+}} : i64}
  // CHECK: stablehlo.optimization_barrier {hespas.wait = true}
  // CHECK: stablehlo.negate {{.*}}id = {{[0-9]+}} : i64}
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
    %s = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %d = "mhlo.async_done"(%s) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %t = stablehlo.tanh %x : tensor<4xf32>
    %n = stablehlo.negate %d : tensor<8xf32>
    return %t, %n : tensor<4xf32>, tensor<8xf32>
  }
}
