// RUN: hespas-opt %s --split-individual=merge | filecheck %s
// RUN: hespas-opt %s --split-individual=merge --split-individual=merge | filecheck %s
// RUN: hespas-opt %s --split-individual | filecheck %s --check-prefix=EACH

/// Three collectives in a row keep their own ops. What none of them waits for (%late) is not merged
/// with what the first waits for (%a), and comes last. The two ops after the last are one region.

module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // CHECK-LABEL: func.func public @main
  // CHECK-NEXT: %[[A:.*]] = stablehlo.negate %arg0 {hespas.region = {{.*}}id = 0
  // CHECK-NEXT: %[[RS:.*]] = "stablehlo.reduce_scatter"(%[[A]])
  // CHECK: %[[AR:.*]] = "stablehlo.all_reduce"(%[[RS]])
  // CHECK: %[[AG:.*]] = "stablehlo.all_gather"(%[[AR]])
  // CHECK-NEXT: %[[LATE:.*]] = stablehlo.tanh %arg0 {hespas.region
  // CHECK-NEXT: %[[END:.*]] = call @region_{{[0-9]+}}({{.*}}%[[AG]]{{.*}}) {hespas.region = {{.*}}ops = 2
  // CHECK-NEXT: return %[[END]], %[[LATE]]

  // EACH-LABEL: func.func public @main
  // EACH: stablehlo.tanh {{.*}}id = 0 : i64}
  // EACH: stablehlo.negate {{.*}}id = 1
  // EACH: reduce_scatter
  // EACH: stablehlo.add {{.*}}id = 2
  // EACH: stablehlo.multiply {{.*}}id = 3
  // EACH: return
  func.func public @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %late = stablehlo.tanh %x : tensor<8xf32>
    %a = stablehlo.negate %x : tensor<8xf32>
    %rs = "stablehlo.reduce_scatter"(%a) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<2xf32>
    %ar = "stablehlo.all_reduce"(%rs) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %ag = "stablehlo.all_gather"(%ar) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<2xf32>) -> tensor<8xf32>
    %b = stablehlo.add %ag, %a : tensor<8xf32>
    %c = stablehlo.multiply %b, %late : tensor<8xf32>
    return %c, %late : tensor<8xf32>, tensor<8xf32>
  }
}
