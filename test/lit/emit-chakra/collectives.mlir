// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace check %t | filecheck %s --check-prefix=SOUND
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: hespas trace print %t/dev.5.et | filecheck %s --check-prefix=SECOND
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// Each kind of collective, with its operand bytes and the communicator of the device; what has one
/// device in each group moves nothing and has no node.

// SOUND: 8 devices, {{.*}}: 0 errors, 0 warnings

// CHECK: 1 COMM_COLL 'all_reduce.0' comm_type=ALL_REDUCE comm_size=256 {{.*}}pg_name=1
// CHECK-NEXT: COMM_COLL 'reduce_scatter.0' after 1 comm_type=REDUCE_SCATTER comm_size=256 {{.*}}pg_name=2
// CHECK-NEXT: COMM_COLL 'all_gather.0' after 2 comm_type=ALL_GATHER comm_size=64 {{.*}}pg_name=2
// CHECK-NEXT: COMM_COLL 'all_to_all.0' after 3 comm_type=ALL_TO_ALL comm_size=256 {{.*}}pg_name=2
// CHECK-NOT: all_reduce
// STATS: "comm_ops": 4, "comm_operand_bytes": 832,
// SECOND: 'all_reduce.0' {{.*}}pg_name=1
// SECOND-NEXT: 'reduce_scatter.0' {{.*}}pg_name=3
module attributes {mhlo.num_replicas = 8 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>) -> tensor<16xf32>
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}> : (tensor<16xf32>) -> tensor<64xf32>
    %3 = "stablehlo.all_to_all"(%2) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<64xf32>) -> tensor<64xf32>
    %4 = "stablehlo.all_reduce"(%3) <{replica_groups = dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    return %4 : tensor<64xf32>
  }
}
