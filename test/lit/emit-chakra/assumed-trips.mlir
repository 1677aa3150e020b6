// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s --check-prefix=SAYS
// RUN: filecheck %s --input-file %t/module_stats.json

/// The time of a loop whose trip count is assumed has a gap, whether it communicates or is in a region; one whose count
/// is known or stated has none. The ops of the body count apart, so that no time counts twice.

// SAYS-NOT: could not be estimated
// SAYS: warning: the trip count of 2 loops is assumed, so that the time can be too short or, with a maximum, too long
// CHECK: "totals": {{{.*}}"assumed_loops": 2, {{.*}}"gaps": 2},
// CHECK: "stablehlo.tanh": {"count": 1,
// CHECK: "stablehlo.while": {"count": 2, "time_ns": 0.0, "flops": 0, "read_bytes": 0, "write_bytes": 0}
// CHECK: "regions": [
// CHECK-NOT: "gap": null
// CHECK: "name": "region_{{[0-9]+}}", "ops": 2, {{.*}}"gap": "{{.*}}assumed
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%p: tensor<i1>, %x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %0:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<64xf32>
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%v) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<64xf32>) -> tensor<64xf32>
      stablehlo.return %q, %r : tensor<i1>, tensor<64xf32>
    }
    %1:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<64xf32>
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %t = stablehlo.tanh %v : tensor<64xf32>
      stablehlo.return %q, %t : tensor<i1>, tensor<64xf32>
    }
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %2:2 = stablehlo.while(%i = %zero, %v = %1#1) : tensor<i32>, tensor<64xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<64xf32>
    }
    %3:2 = stablehlo.while(%q = %p, %v = %2#1) : tensor<i1>, tensor<64xf32> attributes {hespas.trips = 2 : i64}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %r = "stablehlo.all_gather"(%v) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
      %h = stablehlo.slice %r [0:64] : (tensor<128xf32>) -> tensor<64xf32>
      stablehlo.return %q, %h : tensor<i1>, tensor<64xf32>
    }
    %4 = stablehlo.negate %3#1 : tensor<64xf32>
    return %0#1, %4 : tensor<64xf32>, tensor<64xf32>
  }
}
