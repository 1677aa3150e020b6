// RUN: hespas-opt %s --allow-unregistered-dialect --calibrated-annotate="node=A100_SXM_80GB kernel-cost=mystery=5e9:64;flash=5e9:64;foo.bar=5e9:64" 2>&1 | filecheck %s
// RUN: hespas-opt %s --allow-unregistered-dialect --calibrated-annotate="node=A100_SXM_80GB kernel-cost=mystery=0:64;flash=0:64;foo.bar=0:64" 2>&1 | filecheck %s --check-prefix=NONE

/// Kernels whose operations are known by their number only are named: by the kernel, else the target of the call, else the
/// op. Without operations there is nothing to warn of.

// CHECK: warning: the operations of flash, foo.bar, mystery are declared without the shapes of their products
// NONE-NOT: warning: the operations
// NONE: @mystery{{.*}}flops = 0 : i64
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mystery(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @tpu_custom_call(%0) {kernel_name = "flash"} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = "foo.bar"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
