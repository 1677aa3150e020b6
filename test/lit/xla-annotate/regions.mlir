// RUN: hespas-opt %s --split-linear --xla-annotate="device=cpu cache=none repetitions=3" | filecheck %s

/// A region is measured whole: what is inside has no cost of its own, a loop runs its trips.
/// Equal regions are measured once, and a reshape alone takes no time.

// CHECK: hespas.target = {constants = "{{.*}}; jaxlib {{[0-9.]+}}; deviation of repetitions {{[0-9.]+}} %, at most {{[0-9.]+}} %", {{.*}}estimator = "xla 1"
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64x64xf32>, %n: tensor<i32>) -> (tensor<64x64xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    // CHECK: call @[[R:region_[0-9]+]]({{.*}}hespas.cost = {bound = "measured", digest = "{{[0-9a-f_]+}}", dtype = "tf32", estimator = "xla", flops = 1572870 : i64, high_ns = {{[0-9.E+]+}} : f64, latency_ns = [[T:[0-9.E+]+]] : f64, low_ns = {{[0-9.E+]+}} : f64
    %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<64x64xf32>
     cond {
      %k = stablehlo.constant dense<3> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %next, %t : tensor<i32>, tensor<64x64xf32>
    }
    %1 = stablehlo.slice %0#1 [0:1, 0:64] : (tensor<64x64xf32>) -> tensor<1x64xf32>
    // CHECK: "stablehlo.all_reduce"
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1x64xf32>) -> tensor<1x64xf32>
    // CHECK: stablehlo.reshape %{{[0-9a-z]+}} {hespas.region
    %3 = stablehlo.reshape %2 : (tensor<1x64xf32>) -> tensor<8x8xf32>
    return %0#1, %3 : tensor<64x64xf32>, tensor<8x8xf32>
  }
  // CHECK: func.func private @[[R]]({{.*}}latency_ns = [[T]]
  // CHECK-NOT: hespas.cost
}
