// RUN: hespas-opt %s --split-linear --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --input-file %t/module_stats.json

/// The sums of one step on one device, by kind of op, type, bound, class and region, each op as often as it runs. At 1e12
/// operations and bytes a second, 2 * 64^3 operations take 524.288 ns, and a negation of 1,024 numbers 8.192 ns for its
/// bytes. @halve negates five times; it runs twice, once and once beside four negations: 23 in all. The lanes are busy
/// for 547.880 of 713.124 ns, and the memory for 213.412.

// CHECK: "program": {"devices": 4, "replicas": 4, "partitions": 1, "split": "linear", "merge": false, "block_limit": 0, "node": "custom", "node_overrides": "peak-flops=1000000000000.0 memory-bandwidth=1000000000000.0", "estimator": "roofline 1"
// CHECK-NEXT: "totals": {"count": 108, "time_ns": 713.124, "flops": 547880, "read_bytes": 110912, "write_bytes": 102500, "comm_ops": 3, "comm_operand_bytes": 12288, {{.*}}"low_ns": null, "high_ns": null, "tags": {}, "gaps": 0},
// CHECK-NEXT: "utilisation": {"flops": 0.7682815{{[0-9]+}}, "bandwidth": 0.2992635{{[0-9]+}}},
// CHECK-NEXT: "kinds": {
// CHECK-NEXT: "stablehlo.dot": {"count": 1, "time_ns": 524.288, "flops": 524288, "read_bytes": 16384, "write_bytes": 8192},
// CHECK-NEXT: "stablehlo.negate": {"count": 23, "time_ns": 188.416, "flops": 23552, "read_bytes": 94208, "write_bytes": 94208},
// CHECK-NEXT: "stablehlo.add": {"count": 20, "time_ns": 0.24, "flops": 20, "read_bytes": 160, "write_bytes": 80},
// CHECK-NEXT: "stablehlo.compare": {"count": 20, "time_ns": 0.18,
// CHECK-NEXT: "stablehlo.constant": {"count": 44, "time_ns": 0.0, "flops": 0, "read_bytes": 0, "write_bytes": 0}
// CHECK-NEXT: },
// CHECK-NEXT: "dtypes": {
// CHECK-NEXT: "bf16": {"count": 1, {{.*}}"executed_flops": 524288},
// CHECK-NEXT: "f32": {"count": 23, {{.*}}"executed_flops": 23552},
// CHECK-NEXT: "i32": {"count": 40, {{.*}}"executed_flops": 0},
// CHECK-NEXT: "none": {"count": 44, {{.*}}"executed_flops": 0}
// CHECK-NEXT: },
// CHECK-NEXT: "bounds": {
// CHECK-NEXT: "compute": {"count": 1,
// CHECK-NEXT: "memory": {"count": 63,
// CHECK-NEXT: "none": {"count": 44,
// CHECK-NEXT: },
// CHECK-NEXT: "classes": {
// CHECK-NEXT: "other": {"count": 108,
// CHECK-NEXT: },
// CHECK-NEXT: "regions": [
// CHECK-NEXT: {"id": 0, "digest": "{{[0-9a-f]+}}", "name": "region_0", "ops": 4, "regions": 1, "runs": 1, "time_ns": 614.61, "flops": 535572, "read_bytes": 61600, "write_bytes": 53298, "bound": "compute", "dtype": "bf16", "gap": null},
// CHECK-NEXT: {"id": 1, {{.*}}"name": "region_1", "ops": 2, "regions": 2, "runs": 2, "time_ns": 49.257{{[0-9]*}}, "flops": 6154, {{.*}}"bound": "memory", "dtype": "f32", "gap": null}
// CHECK-NEXT: ],
// CHECK-NEXT: "reuse": {"regions": 3, "distinct_regions": 2, "basic_block_reuse_rate": 0.3333333{{[0-9]*}}, "ops": 8, "distinct_ops": 6, "operator_reuse_factor": 0.25},
// CHECK-NEXT: "communicators": {
// CHECK-NEXT: "1": {"ranks": [0, 1], "collectives": {"all_reduce": {"count": 1, "operand_bytes": 4096}}},
// CHECK-NEXT: "2": {"ranks": [2, 3], "collectives": {"all_reduce": {"count": 1, "operand_bytes": 4096}}},
// CHECK-NEXT: "3": {"ranks": [0, 1, 2, 3], "collectives": {"all_reduce": {"count": 1, "operand_bytes": 4096}}}
// CHECK-NEXT: },
// CHECK-NEXT: "transfers": {"count": 1, "messages": 2, "message_bytes": 8192}
// CHECK-NEXT: {{^}}}
module @statistics attributes {mhlo.num_replicas = 4 : i32} {
  func.func @main(%a: tensor<64x64xbf16>, %x: tensor<1024xf32>) -> (tensor<64x64xbf16>, tensor<1024xf32>) {
    %product = stablehlo.dot %a, %a : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %n = stablehlo.negate %x : tensor<1024xf32>
    %h = func.call @halve(%n) : (tensor<1024xf32>) -> tensor<1024xf32>
    %i = func.call @halve(%h) : (tensor<1024xf32>) -> tensor<1024xf32>
    %sum = "stablehlo.all_reduce"(%i) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %m = stablehlo.negate %sum : tensor<1024xf32>
    %k = func.call @halve(%m) : (tensor<1024xf32>) -> tensor<1024xf32>
    %moved = "stablehlo.collective_permute"(%k) <{source_target_pairs = dense<[[0, 1], [1, 0], [2, 2]]> : tensor<3x2xi64>}> : (tensor<1024xf32>) -> tensor<1024xf32>
    %o = stablehlo.negate %moved : tensor<1024xf32>
    %r = func.call @halve(%o) : (tensor<1024xf32>) -> tensor<1024xf32>
    %all = "stablehlo.all_reduce"(%r) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    return %product, %all : tensor<64x64xbf16>, tensor<1024xf32>
  }
  func.func private @halve(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<1024xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.negate %v : tensor<1024xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<1024xf32>
    }
    return %0#1 : tensor<1024xf32>
  }
}
