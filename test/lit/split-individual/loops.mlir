// RUN: hespas-opt %s --split-individual=merge | filecheck %s
// RUN: hespas-opt %s --split-individual=merge --split-individual=merge | filecheck %s
// RUN: hespas-opt %s --split-individual=merge --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=TRACE

/// The body of a loop with a collective is split, though it captures values of the regions around it. What it captures
/// comes before it; a loop without a collective is an op of a region.

// CHECK: %[[M:.*]]:2 = call @[[BEFORE:region_[0-9]+]](%arg0) {{.*}}ops = 2
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[M]]#0)
// CHECK: stablehlo.compare {{.*}}id = 0 : i64}
// CHECK: %[[R:.*]] = "stablehlo.all_reduce"
// CHECK: stablehlo.add {{.*}}id = 1 : i64}
// CHECK: call @region_2(%[[R]], %[[M]]#1, %{{.*}}, %arg0) {{.*}}ops = 4
// CHECK: call @[[AFTER:region_[0-9]+]](%{{.*}}) {{.*}}ops = 2
// CHECK-NOT: stablehlo.while
// CHECK: func.func private @[[AFTER]](
// CHECK: stablehlo.while
/// The trace has the trips of the loop that communicates.
// TRACE: 1 COMP 'region 3: negate +1' 0us {{.*}}flops=8 read_bytes=64 write_bytes=64
// TRACE-NEXT: 2 COMP 'region 0: compare' 0us after 1 {{.*}}flops=1 read_bytes=8 write_bytes=1
// TRACE-NEXT: 3 COMM_COLL 'all_reduce.0' after 1 comm_type=ALL_REDUCE comm_size=32
// TRACE-NEXT: 4 COMP 'region 1: add' 0us after 2 {{.*}}flops=1 read_bytes=8 write_bytes=4
// TRACE-NEXT: 5 COMP 'region 2: add +3' 0us after 3,4 {{.*}}flops=32 read_bytes=256 write_bytes=128
// TRACE-NEXT: 6 COMP 'region 0: compare' 0us after 4 {{.*}}flops=1 read_bytes=8 write_bytes=1
// TRACE: 18 COMP 'region 4: while +1' 0us after 17 {{.*}}flops=8 read_bytes=224 write_bytes=180
module @captures attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %two = stablehlo.constant dense<2.0> : tensor<8xf32>
    %n = stablehlo.negate %x : tensor<8xf32>
    %m = stablehlo.tanh %n : tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %n) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %r = "stablehlo.all_reduce"(%v) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8xf32>) -> tensor<8xf32>
      %c = stablehlo.add %r, %m : tensor<8xf32>
      %d = stablehlo.multiply %c, %m : tensor<8xf32>
      %e = stablehlo.subtract %d, %two : tensor<8xf32>
      %f = stablehlo.maximum %e, %x : tensor<8xf32>
      stablehlo.return %j, %f : tensor<i32>, tensor<8xf32>
    }
    %1:2 = stablehlo.while(%i = %zero, %v = %0#1) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<8xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
    }
    %2 = stablehlo.sine %1#1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
