// RUN: hespas-opt %s --systolic-annotate=node=TPUv3_core | filecheck %s
// RUN: hespas-opt %s --systolic-annotate=node=TPUv3 | filecheck %s --check-prefix=CHIP
// RUN: hespas-opt %s --split-linear --systolic-annotate=node=TPUv3_core | filecheck %s --check-prefix=REGION

/// Products go to the arrays, of a core or of a whole chip, the rest to the vector unit; what moves
/// nothing takes no time.

// CHECK: hespas.target = {constants = "TPUv3_core: 1 core with 2 arrays of 128 x 128 at 0.94 GHz, 450 GB/s, ws, pipelined"
// CHECK-SAME: estimator = "systolic {{[0-9]+}}", {{.*}}node = "TPUv3_core"
// CHIP: constants = "TPUv3: 2 cores with 2 arrays of 128 x 128 at 0.94 GHz, 900 GB/s, ws, pipelined"
// REGION: call @region_0({{.*}}hespas.cost = {estimator = "systolic", flops = 2148531200
module {
  func.func public @main(%x: tensor<1024x1024xbf16>, %w: tensor<1024x1024xbf16>) -> (tensor<1024xbf16>, tensor<1048576xbf16>) {
    /// 32 folds on each of two arrays, of 1024 rows, and the time to load the first weights and fetch the first tiles.
    // CHECK: stablehlo.dot_general {{.*}}bound = "compute", digest = "{{[0-9a-f_]+}}", dtype = "bf16", estimator = "systolic", flops = 2147483648 : i64, latency_ns = 35557.228557
    // CHIP: stablehlo.dot_general {{.*}}latency_ns = 18127.441323
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    // CHECK: stablehlo.tanh {{.*}}bound = "memory", {{.*}}latency_ns = 9610.037257
    %1 = stablehlo.tanh %0 : tensor<1024x1024xbf16>
    // CHECK: stablehlo.reshape %{{[0-9a-z]+}} :
    %2 = stablehlo.reshape %1 : (tensor<1024x1024xbf16>) -> tensor<1048576xbf16>
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    // CHECK: stablehlo.reduce{{.*}}bound = "memory", digest = "{{[0-9a-f_]+}}", dtype = "bf16", {{.*}}latency_ns = 4954.255035
    %3 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    return %3, %2 : tensor<1024xbf16>, tensor<1048576xbf16>
  }
}
