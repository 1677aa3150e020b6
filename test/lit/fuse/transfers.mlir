// RUN: hespas-opt %s --fuse=overlap=transfers | filecheck %s
// RUN: hespas-opt %s --fuse | filecheck %s --check-prefix=SERIAL

/// A copy to the host runs alongside the product with `overlap=transfers`, as on TPUs; it is serial
/// otherwise.

// CHECK: hespas_offload{{.*}}is_async = true
// CHECK: stablehlo.dot_general
// CHECK: hespas.wait
// SERIAL: hespas_offload
// SERIAL-NOT: is_async
func.func @main(%x: tensor<1024x1024xbf16>) -> (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) {
  %h = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  return %y, %h : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>
}
