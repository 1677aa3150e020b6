// RUN: hespas-opt %s --overlap-transfers=target=H100_80GB | filecheck %s
// RUN: hespas-opt %s --overlap-transfers=target=A100_SXM_40GB | filecheck %s --check-prefix=SERIAL
// RUN: not hespas-opt %s --overlap-transfers=target=A1 2>&1 | filecheck %s --check-prefix=NAME

/// XLA hides copies, like collectives, on GPUs of data centres from Hopper on.

// CHECK: hespas_offload{{.*}}is_async = true
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: hespas.wait
// SERIAL-NOT: hespas.wait
// NAME: error: no target is named 'A1'
func.func @main(%x: tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>) {
  %h = stablehlo.custom_call @hespas_offload(%x) {hespas.comm = {network = "host"}} : (tensor<512xf32>) -> tensor<512xf32>
  %y = stablehlo.tanh %x : tensor<512xf32>
  return %y, %h : tensor<512xf32>, tensor<512xf32>
}
