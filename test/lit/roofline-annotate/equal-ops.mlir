// RUN: hespas-opt %s --split-linear --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" | filecheck %s
// RUN: hespas-opt %s --split-linear | hespas-opt - --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// A function whose ops all equal ops of an earlier function gets their costs without another estimate: on each op, its
/// kernels, and their sum on the function and on its calls.

// CHECK: %[[A:.*]] = call @region_0({{.*}}) {hespas.cost = {estimator = "roofline", flops = 3072 : i64, latency_ns = 2.867200e+01
// CHECK: call @region_1(%{{.*}}) {hespas.cost = {estimator = "roofline", flops = 3072 : i64, latency_ns = 2.867200e+01
// CHECK: func.func private @region_0({{.*}}flops = 3072
// CHECK: func.func private @region_1({{.*}} attributes {hespas.cost = {estimator = "roofline", flops = 3072 : i64, latency_ns = 2.867200e+01 : f64, read_bytes = 16384 : i64, write_bytes = 12288 : i64}
// CHECK: stablehlo.add {{.*}}flops = 1024 : i64, latency_ns = 1.228800e+01 : f64
// CHECK: "mhlo.fusion"
// CHECK: }) {hespas.cost = {{{.*}}flops = 1024 : i64, latency_ns = 8.192000e+00 : f64, {{.*}}hespas.kernel = {kind = "loop"}}
// CHECK: stablehlo.negate {{.*}}flops = 1024 : i64, latency_ns = 8.192000e+00 : f64
// CHECK: return
// STATS: "stablehlo.add": {"count": 2, "time_ns": 24.576,
// STATS-NEXT: "mhlo.fusion": {"count": 2, "time_ns": 16.384,
// STATS-NEXT: "stablehlo.negate": {"count": 2, "time_ns": 16.384,
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = stablehlo.negate %x : tensor<1024xf32>
    %1 = stablehlo.add %0, %x : tensor<1024xf32>
    %2 = "mhlo.fusion"(%1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024xf32>):
      %b = stablehlo.negate %a : tensor<1024xf32>
      mhlo.return %b : tensor<1024xf32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %3 = "stablehlo.all_reduce"(%2) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %4 = stablehlo.add %3, %x : tensor<1024xf32>
    %5 = "mhlo.fusion"(%4) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024xf32>):
      %b = stablehlo.negate %a : tensor<1024xf32>
      mhlo.return %b : tensor<1024xf32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %6 = stablehlo.negate %5 : tensor<1024xf32>
    return %6 : tensor<1024xf32>
  }
}
