// RUN: hespas-opt %s --split-individual=merge --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: hespas-opt %s --split-individual=merge | hespas-opt - --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// A pass that follows in the same process is told what the split knows of the ops, which saves it from reading them
/// again. Costs and dependencies are those of a module that another process has read: those of an op with several
/// results, of calls, of constants that have gone, that stay and that are large, and of a wait. Merging has moved the ops.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type=ALL_GATHER comm_size=16
// CHECK-NEXT: 2 COMP 'region 0: add +1' 0us {{.*}}flops=4 read_bytes=48 write_bytes=32
// CHECK-NEXT: 3 COMM_COLL 'all_gather.1' after 1,2 comm_type=ALL_GATHER comm_size=16
// CHECK-NEXT: 4 COMP 'region 1: sort +1' 0us after 2,3 {{.*}}flops=24 read_bytes=64 write_bytes=64
// CHECK-NEXT: 5 COMM_COLL 'all_reduce.0' after 4 comm_type=ALL_REDUCE comm_size=32
// CHECK-NEXT: 6 COMP 'region 2: slice +2' 0us after 4,5 {{.*}}flops=4 read_bytes=64 write_bytes=48
// CHECK-NEXT: 7 COMM_COLL 'all_reduce.1' after 6 comm_type=ALL_REDUCE comm_size=16
// CHECK-NEXT: 8 COMP 'region 3: dot_general' 0us after 2 {{.*}}flops=512 read_bytes=256 write_bytes=256
// CHECK-NEXT: 9 COMP 'region 4: slice' 0us after 5,8 {{.*}}flops=0 read_bytes=16 write_bytes=16
// CHECK-NEXT: 10 COMP 'region 5: add +1' 0us after 7,9 {{.*}}flops=4 read_bytes=48 write_bytes=32
module @handed_on attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<4xf32>, %w: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %gone = stablehlo.constant dense<1.0> : tensor<4xf32>
    %kept = stablehlo.constant dense<2.0> : tensor<4xf32>
    %start = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %add = stablehlo.add %x, %gone : tensor<4xf32>
    %tanh = stablehlo.tanh %add : tensor<4xf32>
    %sync = "stablehlo.all_gather"(%tanh) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    %product = stablehlo.dot_general %w, %w, contracting_dims = [0] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %done = "mhlo.async_done"(%start) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %sorted:2 = "stablehlo.sort"(%sync, %done) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %free = stablehlo.optimization_barrier %sorted#1 : tensor<8xf32>
    %last = "stablehlo.all_reduce"(%free) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %part = stablehlo.slice %last [0:4] : (tensor<8xf32>) -> tensor<4xf32>
    %tanh2 = stablehlo.tanh %part : tensor<4xf32>
    %add2 = stablehlo.add %tanh2, %gone : tensor<4xf32>
    %part2 = stablehlo.slice %last [0:4] : (tensor<8xf32>) -> tensor<4xf32>
    %last2 = "stablehlo.all_reduce"(%add2) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %add3 = stablehlo.add %last2, %gone : tensor<4xf32>
    %tanh3 = stablehlo.tanh %last2 : tensor<4xf32>
    return %tanh, %sorted#0, %sorted#1, %product, %kept, %part2, %add3, %tanh3 : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
