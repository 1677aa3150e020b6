// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core dataflow=os" --systolic-annotate | filecheck %s
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core kernel-cost=kernel=5000:64" | filecheck %s --check-prefix=KERNEL

/// The second time the node is that of the module, and its other options are the defaults.

// CHECK: constants = "TPUv3_core{{.*}}, ws, pipelined
// KERNEL: @kernel{{.*}}flops = 5000 : i64
func.func @main(%a: tensor<128x128xbf16>) -> tensor<128x128xbf16> {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<128x128xbf16>, tensor<128x128xbf16>) -> tensor<128x128xbf16>
  %1 = stablehlo.custom_call @kernel(%0) {hespas.kernel_cost = {bytes = 64 : i64, flops = 1 : i64}} : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
  return %1 : tensor<128x128xbf16>
}
