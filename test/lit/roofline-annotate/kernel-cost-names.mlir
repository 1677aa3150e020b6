// RUN: hespas-opt %s --allow-unregistered-dialect --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 kernel-cost=mystery=5000:64;foo.bar=9000:32;hespas_collective_permute=1:2;stablehlo.tanh=3:4" 2>&1 | filecheck %s
// RUN: hespas-opt %s --allow-unregistered-dialect --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 kernel-cost=mystery=5000:64;%S/Inputs/rules.py" 2>&1 | filecheck %s --check-prefix=RULES

/// A declaration is for calls by their target and for ops without a rule, by their name. Collectives are simulated, and
/// what hespas has a rule for keeps it; a name without an op is a warning. A file of rules computes the work from the op.

// CHECK: warning: {{.*}}kernel-cost: no custom call and no op without a cost rule is named 'hespas_collective_permute'; the names in the module: foo.bar, mystery
// CHECK: warning: {{.*}}is named 'stablehlo.tanh'
// CHECK: @mystery{{.*}}flops = 5000 : i64, latency_ns = 5.000000e+00 : f64{{.*}}hespas.kernel_cost = {bytes = 64 : i64, flops = 5000 : i64, kernel = "mystery"}
// CHECK: @hespas_collective_permute
// CHECK-NOT: kernel_cost
// CHECK: stablehlo.tanh
// CHECK-NOT: kernel_cost
// CHECK: "foo.bar"{{.*}}flops = 9000 : i64, latency_ns = 9.000000e+00 : f64
// CHECK-NEXT: return
// RULES-NOT: warning
// RULES: "foo.bar"{{.*}}flops = 7000 : i64, latency_ns = 7.000000e+00 : f64
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @mystery(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @hespas_collective_permute(%0) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64}, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.tanh %1 : tensor<4xf32>
    %3 = "foo.bar"(%2) : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}
