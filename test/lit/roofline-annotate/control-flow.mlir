// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-linear | filecheck %s

/// A loop costs its trips; a region and the calls of it have one cost, before or after splitting.

// CHECK-LABEL: func.func public @main
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    // CHECK: call @[[R:region_[0-9]+]]({{.*}}hespas.cost = {estimator = "roofline", flops = 14 : i64, latency_ns = [[T:[0-9.E+]+]] : f64, read_bytes = 29360272 : i64, write_bytes = 29360195 : i64}
    %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1048576xf32>
     cond {
      %n = stablehlo.constant dense<7> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.cosine %a : tensor<1048576xf32>
      stablehlo.return %next, %t : tensor<i32>, tensor<1048576xf32>
    }
    %1 = stablehlo.slice %0#1 [0:8] : (tensor<1048576xf32>) -> tensor<8xf32>
    // CHECK-NEXT: "stablehlo.all_reduce"
    // CHECK-NOT: hespas.cost
    // CHECK: hespas.comm
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0#1 : tensor<1048576xf32>
  }
  // CHECK: func.func private @[[R]]({{.*}}latency_ns = [[T]]
  // CHECK: stablehlo.while{{.*}} hespas.trips = 7
  // CHECK: stablehlo.cosine {{.*}}hespas.cost
}
