// RUN: hespas-opt %s --check-input 2>&1 | filecheck %s
// RUN: hespas-opt %s --check-input --check-input 2>&1 | filecheck %s

/// What JAX's compute_on places on the host has a time that nobody knows: it must not pass for a kernel of the device
/// without a word.

// CHECK: warning: 1 computation on the host (func.call ({{.*}}host.mlir:14:8)): estimated as if the device ran it, because the time of the host is not known
// CHECK: func.func public @main
func.func private @compute_on(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = stablehlo.add %x, %x {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : tensor<16xf32>
  return %0 : tensor<16xf32>
}
func.func public @main(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = call @compute_on(%x) {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = call @compute_on(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %0, %1 : tensor<16xf32>, tensor<16xf32>
}
