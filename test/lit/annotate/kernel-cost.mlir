// RUN: hespas-opt %s '--annotate=node=A100_SXM_40GB kernel-cost="forward=3e9,4000;@other=1,2;the_target=5e9,64"' | filecheck %s
// RUN: hespas-opt %s '--annotate=node=A100_SXM_40GB kernel-cost=forward=3e9:4000;the_target=5e9:64' | hespas-opt --split-linear --roofline-annotate | filecheck %s
// RUN: not hespas-opt %s '--annotate=node=A100_SXM_40GB kernel-cost="forward=3e9"' 2>&1 | filecheck %s --check-prefix=FORM
// RUN: not hespas-opt %s '--annotate=node=A100_SXM_40GB' 2>&1 | filecheck %s --check-prefix=OPAQUE

// FORM: error: kernel-cost: 'forward=3e9' is not NAME=FLOPS:BYTES; write NAME=FLOPS:BYTES, or name a JSON file
// OPAQUE: kernel-cost.mlir:{{[0-9]+}}:8: error: 'stablehlo.custom_call': custom call @__gpu$xla.gpu.triton of kernel 'forward' holds a kernel that only it can cost; declare the work of forward with kernel-cost=forward=FLOPS:BYTES,

/// Declared by the name of the kernel, in the configuration beside an empty one; it replaces what
/// the call declares. The attribute stays on the call, so that a second process counts the same.

// CHECK-DAG: @__gpu$xla.gpu.triton({{.*}}hespas.cost = {{.*}}flops = 3000000000 : i64, {{.*}}read_bytes = 3936 : i64, {{.*}}write_bytes = 64 : i64{{.*}}hespas.kernel_cost = {bytes = 4000 : i64, flops = 3000000000 : i64, kernel = "

/// By the attribute that Pallas writes for TPUs.

// CHECK-DAG: @tpu_custom_call({{.*}}flops = 3000000000 : i64,

/// By the target, for a kernel with another name; fewer bytes than the results have.

// CHECK-DAG: @the_target({{.*}}flops = 5000000000 : i64, {{.*}}read_bytes = 0 : i64, {{.*}}write_bytes = 64 : i64
func.func @main(%x: tensor<4x4xf32> {mhlo.sharding = "\FF"}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>) {
  %0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%x) {backend_config = "", mhlo.backend_config = {ir = "ML\EFR\FF\FE", name = "forward"}, mhlo.sharding = "\FF"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.custom_call @tpu_custom_call(%x) {kernel_name = "forward", backend_config = "{\22cost_estimate\22: {\22flops\22: 7}}"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = stablehlo.custom_call @the_target(%x) {backend_config = {name = "unknown", values = dense<(1.0,2.0)> : tensor<2xcomplex<f32>>}, api_version = 4 : i32} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>
}
