// RUN: hespas-opt %s --split-input-file --xla-optimize=target=H100_80GB,stage=scheduled,triton-gemm=false,async-collectives=keep | filecheck %s
// REQUIRES: gpu-compiler

/// Without Triton a product is a call of cuBLAS, whose configuration says what it contracts, and
/// which takes the bias along. Every op left is a kernel.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.custom_call @__cublas$lt$matmul
// CHECK-SAME: lhs_contracting_dimensions
// CHECK-SAME: epilogue\22:\22BIAS
func.func public @main(%x: tensor<256x512xbf16>, %w: tensor<512x256xbf16>, %b: tensor<256xbf16>) -> tensor<256x256xbf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x512xbf16>, tensor<512x256xbf16>) -> tensor<256x256xbf16>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<256xbf16>) -> tensor<256x256xbf16>
  %2 = stablehlo.add %0, %1 : tensor<256x256xbf16>
  return %2 : tensor<256x256xbf16>
}

// -----

/// Two all-gathers are combined, and are under way while the product is computed.

// CHECK-LABEL: module
// CHECK: func.func private @in_flight_0
// CHECK: "stablehlo.all_gather"(%{{.*}}, %{{.*}})
// CHECK: func.func @main
// CHECK: %[[S:.*]] = "mhlo.async_start"(%{{.*}}, %{{.*}}) <{called_computation = @in_flight_0
// CHECK: stablehlo.custom_call @__cublas$lt$matmul
// CHECK: %{{.*}}:2 = "mhlo.async_done"(%[[S]])
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%x: tensor<1024x1024xbf16>, %a: tensor<64x128xbf16>, %b: tensor<32x128xbf16>) -> (tensor<1024x1024xbf16>, tensor<256x128xbf16>, tensor<128x128xbf16>) {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<64x128xbf16>) -> tensor<256x128xbf16>
    %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<32x128xbf16>) -> tensor<128x128xbf16>
    %2 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    return %2, %0, %1 : tensor<1024x1024xbf16>, tensor<256x128xbf16>, tensor<128x128xbf16>
  }
}
