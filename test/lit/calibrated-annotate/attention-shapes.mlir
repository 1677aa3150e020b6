// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB --keep-going --split-input-file | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB --keep-going --split-input-file | filecheck %s --check-prefix=B200
// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB_720W --keep-going --split-input-file | filecheck %s --check-prefix=LIMIT
// RUN: hespas-opt %s --calibrated-annotate=node=L4_24GB --keep-going --split-input-file | filecheck %s --check-prefix=L4
// RUN: hespas-opt %s --calibrated-annotate="node=A100_SXM_80GB attention=flash-attention-2" --keep-going --split-input-file | filecheck %s --check-prefix=FLASH
// RUN: hespas-opt %s --calibrated-annotate="node=A100_SXM_80GB attention=flash-attention-triton" --keep-going --split-input-file | filecheck %s --check-prefix=TRITON

/// Fused attention by its types, shapes and directions. The numbers are those of the constants of the nodes, and change with
/// them. The backward direction has a factor where it was measured, and boards with another limit of power another time.

// CHECK-LABEL: module @forward
// B200-LABEL: module @forward
// LIMIT-LABEL: module @forward
// L4-LABEL: module @forward
// FLASH-LABEL: module @forward
// TRITON-LABEL: module @forward
module @forward {
  func.func @main(%x0: tensor<4x4096x16x128xbf16>, %x1: tensor<4x4096x16x128xf16>, %x2: tensor<4x4096x16x128xf8E4M3FN>, %x3: tensor<2x1024x4x64xf32>, %x4: tensor<16x16384x32x128xbf16>, %x5: tensor<1x128x2x64xbf16>, %x6: tensor<32x1x16x128xbf16>, %x7: tensor<32x4096x16x128xbf16>, %x8: tensor<32x4096x2x128xbf16>, %x9: tensor<32x2x16x128xbf16>) -> (tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf8E4M3FN>, tensor<2x1024x4x64xf32>, tensor<16x16384x32x128xbf16>, tensor<1x128x2x64xbf16>, tensor<32x1x16x128xbf16>, tensor<32x1x16x128xbf16>, tensor<32x2x16x128xbf16>) {
    /// Sixteen-bit types have the constants of bf16;
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1799703.5465{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 339926.6599{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 379060.8675{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 6055575.1637{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1347769.6853{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1886877.5594{{.*}} tag = "transferred"
    %0:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x0, %x0, %x0) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>) -> (tensor<4x4096x16x128xbf16>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1799703.5465{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 339926.6599{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 379060.8675{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 6055575.1637{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1347769.6853{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1886877.5594{{.*}} tag = "transferred"
    %1:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x1, %x1, %x1) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>) -> (tensor<4x4096x16x128xf16>, tensor<0xui8>)
    /// others too, and these do not count as measured.
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1644045.3143{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 175064.1776{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 175064.1776{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 3033296.9040{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1347769.6853{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1886877.5594{{.*}} tag = "transferred"
    %2:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x2, %x2, %x2) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x128xf8E4M3FN>, tensor<4x4096x16x128xf8E4M3FN>, tensor<4x4096x16x128xf8E4M3FN>) -> (tensor<4x4096x16x128xf8E4M3FN>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 47441.3287{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 29243.8166{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 29243.8166{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L4: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 167977.5218{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 6889.6820{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 8359.4808{{.*}} tag = "extrapolated transferred"
    %3:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x3, %x3, %x3) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\222\22,\224\22,\221024\22,\221024\22]}}}"} : (tensor<2x1024x4x64xf32>, tensor<2x1024x4x64xf32>, tensor<2x1024x4x64xf32>) -> (tensor<2x1024x4x64xf32>, tensor<0xui8>)
    /// A call of many operations meets the limit of power;
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 199501515.1055{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 30674829.8424{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 39098595.5408{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 553969594.1415{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 173332608.7314{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 242665652.2239{{.*}} tag = "transferred"
    %4:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x4, %x4, %x4) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\2216\22,\2232\22,\2216384\22,\2216384\22]}}}"} : (tensor<16x16384x32x128xbf16>, tensor<16x16384x32x128xbf16>, tensor<16x16384x32x128xbf16>) -> (tensor<16x16384x32x128xbf16>, tensor<0xui8>)
    /// one of few is launched and gone.
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 12232.8843{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 11658.4319{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 11658.4319{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L4: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 13458.8572{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 23.4837{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 32.8772{{.*}} tag = "extrapolated transferred"
    %5:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x5, %x5, %x5) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\221\22,\222\22,\22128\22,\22128\22]}}}"} : (tensor<1x128x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<1x128x2x64xbf16>) -> (tensor<1x128x2x64xbf16>, tensor<0xui8>)
    /// One query for each sequence reads its keys and values, in a class of its own,
    // CHECK: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 731892.1708{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 167441.2771{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 167441.2771{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L4: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 4881809.6566{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 731892.1708{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 731892.1708{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %6:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x6, %x7, %x7) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\2232\22,\2216\22,\221\22,\224096\22]}}}"} : (tensor<32x1x16x128xbf16>, tensor<32x4096x16x128xbf16>, tensor<32x4096x16x128xbf16>) -> (tensor<32x1x16x128xbf16>, tensor<0xui8>)
    /// also where several heads share them.
    // CHECK: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 110207.3560{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 29763.8207{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 29763.8207{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L4: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 652121.8463{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 110207.3560{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 110207.3560{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %7:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x6, %x8, %x8) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\2232\22,\2216\22,\221\22,\224096\22]}}}"} : (tensor<32x1x16x128xbf16>, tensor<32x4096x2x128xbf16>, tensor<32x4096x2x128xbf16>) -> (tensor<32x1x16x128xbf16>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 2306400.2002{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 1110936.6390{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 1110936.6390{{.*}} tag = "extrapolated"
    // L4: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 15545694.9685{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 11929.0083{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 16700.6116{{.*}} tag = "extrapolated transferred"
    %8:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x9, %x7, %x7) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\2232\22,\2216\22,\222\22,\224096\22]}}}"} : (tensor<32x2x16x128xbf16>, tensor<32x4096x16x128xbf16>, tensor<32x4096x16x128xbf16>) -> (tensor<32x2x16x128xbf16>, tensor<0xui8>)
    return %0#0, %1#0, %2#0, %3#0, %4#0, %5#0, %6#0, %7#0, %8#0 : tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf8E4M3FN>, tensor<2x1024x4x64xf32>, tensor<16x16384x32x128xbf16>, tensor<1x128x2x64xbf16>, tensor<32x1x16x128xbf16>, tensor<32x1x16x128xbf16>, tensor<32x2x16x128xbf16>
  }
}

// -----

// CHECK-LABEL: module @backward
// B200-LABEL: module @backward
// LIMIT-LABEL: module @backward
// L4-LABEL: module @backward
// FLASH-LABEL: module @backward
// TRITON-LABEL: module @backward
module @backward {
  func.func @main(%x0: tensor<4x4096x16x64xbf16>, %x1: tensor<4x16x4096xf32>, %x2: tensor<4x4096x16x128xbf16>, %x3: tensor<4x4096x16x192xbf16>, %x4: tensor<4x4096x16x256xbf16>, %x5: tensor<4x512x16x128xbf16>, %x6: tensor<4x16x512xf32>, %x7: tensor<1x65536x16x128xbf16>, %x8: tensor<1x16x65536xf32>, %x9: tensor<32x1x16x128xbf16>, %x10: tensor<32x4096x16x128xbf16>, %x11: tensor<32x16x1xf32>, %x12: tensor<4x4096x16x128xf16>, %x13: tensor<4x4096x16x128xf32>, %x14: tensor<4x4096x16x320xbf16>) -> (tensor<4x4096x16x64xbf16>, tensor<4x4096x16x128xbf16>, tensor<4x4096x16x192xbf16>, tensor<4x4096x16x256xbf16>, tensor<4x512x16x128xbf16>, tensor<1x65536x16x128xbf16>, tensor<32x1x16x128xbf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf32>, tensor<4x4096x16x320xbf16>) {
    /// The factor of a backward call is that of its heads, of 64 to 256,
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 2879979.4138{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 762952.8190{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 762952.8190{{.*}} tag = "extrapolated"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 9282689.0020{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 2045721.8438{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 4091443.6876{{.*}} tag = "extrapolated transferred"
    %0:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x0, %x0, %x0, %x1, %x0, %x0) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x64xbf16>, tensor<4x4096x16x64xbf16>, tensor<4x4096x16x64xbf16>, tensor<4x16x4096xf32>, tensor<4x4096x16x64xbf16>, tensor<4x4096x16x64xbf16>) -> (tensor<4x4096x16x64xbf16>, tensor<4x4096x16x64xbf16>, tensor<4x4096x16x64xbf16>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 5747377.2737{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 932033.1936{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 993519.8328{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 18542233.7610{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 4091443.6876{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 8182887.3752{{.*}} tag = "transferred"
    %1:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x2, %x2, %x2, %x1, %x2, %x2) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>, tensor<4x16x4096xf32>, tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>) -> (tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>, tensor<4x4096x16x128xbf16>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 8614775.2486{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1387119.5771{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 1483716.1655{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 27801779.1862{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 6137165.5314{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 12274331.0628{{.*}} tag = "extrapolated transferred"
    %2:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x3, %x3, %x3, %x1, %x3, %x3) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x192xbf16>, tensor<4x4096x16x192xbf16>, tensor<4x4096x16x192xbf16>, tensor<4x16x4096xf32>, tensor<4x4096x16x192xbf16>, tensor<4x4096x16x192xbf16>) -> (tensor<4x4096x16x192xbf16>, tensor<4x4096x16x192xbf16>, tensor<4x4096x16x192xbf16>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 11482173.2523{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 2220053.0692{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 2220053.0692{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 37061324.7782{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 8182887.3752{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 16365774.7504{{.*}} tag = "extrapolated transferred"
    %3:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x4, %x4, %x4, %x1, %x4, %x4) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x256xbf16>, tensor<4x4096x16x256xbf16>, tensor<4x4096x16x256xbf16>, tensor<4x16x4096xf32>, tensor<4x4096x16x256xbf16>, tensor<4x4096x16x256xbf16>) -> (tensor<4x4096x16x256xbf16>, tensor<4x4096x16x256xbf16>, tensor<4x4096x16x256xbf16>, tensor<0xui8>)
    /// and of its queries: few,
    // CHECK: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 232079.6704{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 66733.4489{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 66733.4489{{.*}} tag = "extrapolated"
    // L4: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 1186295.4827{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 76300.6365{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 152601.2731{{.*}} tag = "extrapolated transferred"
    %4:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x5, %x5, %x5, %x6, %x5, %x5) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\22512\22,\22512\22]}}}"} : (tensor<4x512x16x128xbf16>, tensor<4x512x16x128xbf16>, tensor<4x512x16x128xbf16>, tensor<4x16x512xf32>, tensor<4x512x16x128xbf16>, tensor<4x512x16x128xbf16>) -> (tensor<4x512x16x128xbf16>, tensor<4x512x16x128xbf16>, tensor<4x512x16x128xbf16>, tensor<0xui8>)
    /// many,
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 307398625.9400{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 46939911.6030{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 54571160.3570{{.*}} tag = "extrapolated transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 802997431.6783{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 244339645.5537{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 488679291.1075{{.*}} tag = "extrapolated transferred"
    %5:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x7, %x7, %x7, %x8, %x7, %x7) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\221\22,\2216\22,\2265536\22,\2265536\22]}}}"} : (tensor<1x65536x16x128xbf16>, tensor<1x65536x16x128xbf16>, tensor<1x65536x16x128xbf16>, tensor<1x16x65536xf32>, tensor<1x65536x16x128xbf16>, tensor<1x65536x16x128xbf16>) -> (tensor<1x65536x16x128xbf16>, tensor<1x65536x16x128xbf16>, tensor<1x65536x16x128xbf16>, tensor<0xui8>)
    /// and one.
    // CHECK: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 6579089.1837{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 2761615.3759{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 2761615.3759{{.*}} tag = "extrapolated"
    // L4: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 44548057.6018{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 19037.9756{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 38075.9512{{.*}} tag = "extrapolated transferred"
    %6:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x9, %x10, %x10, %x11, %x9, %x9) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\2232\22,\2216\22,\221\22,\224096\22]}}}"} : (tensor<32x1x16x128xbf16>, tensor<32x4096x16x128xbf16>, tensor<32x4096x16x128xbf16>, tensor<32x16x1xf32>, tensor<32x1x16x128xbf16>, tensor<32x1x16x128xbf16>) -> (tensor<32x1x16x128xbf16>, tensor<32x4096x16x128xbf16>, tensor<32x4096x16x128xbf16>, tensor<0xui8>)
    /// It was measured for sixteen bits:
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 5747377.2737{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 932033.1936{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.custom_call{{.*}}bound = "power"{{.*}} latency_ns = 993519.8328{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 18542233.7610{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 4091443.6876{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 8182887.3752{{.*}} tag = "transferred"
    %7:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x12, %x12, %x12, %x1, %x12, %x12) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>, tensor<4x16x4096xf32>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>) -> (tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf16>, tensor<0xui8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 11482173.2523{{.*}} tag = "transferred"
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1883958.4378{{.*}} tag = "transferred"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 1883958.4378{{.*}} tag = "transferred"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 37265963.1874{{.*}} tag = "transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 4406170.1251{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 8182887.3752{{.*}} tag = "transferred"
    %8:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x13, %x13, %x13, %x1, %x13, %x13) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x128xf32>, tensor<4x4096x16x128xf32>, tensor<4x4096x16x128xf32>, tensor<4x16x4096xf32>, tensor<4x4096x16x128xf32>, tensor<4x4096x16x128xf32>) -> (tensor<4x4096x16x128xf32>, tensor<4x4096x16x128xf32>, tensor<4x4096x16x128xf32>, tensor<0xui8>)
    /// large heads that take hardly longer than smaller ones take no less.
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 14349571.2675{{.*}} tag = "extrapolated"
    // B200: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 3182353.0908{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 3182353.0908{{.*}} tag = "extrapolated"
    // L4: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 46320870.4369{{.*}} tag = "extrapolated transferred"
    // FLASH: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 10228609.2190{{.*}} tag = "extrapolated"
    // TRITON: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 20457218.4380{{.*}} tag = "extrapolated transferred"
    %9:4 = stablehlo.custom_call @__cudnn$fmhaSoftmaxBackward(%x14, %x14, %x14, %x1, %x14, %x14) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\224\22,\2216\22,\224096\22,\224096\22]}}}"} : (tensor<4x4096x16x320xbf16>, tensor<4x4096x16x320xbf16>, tensor<4x4096x16x320xbf16>, tensor<4x16x4096xf32>, tensor<4x4096x16x320xbf16>, tensor<4x4096x16x320xbf16>) -> (tensor<4x4096x16x320xbf16>, tensor<4x4096x16x320xbf16>, tensor<4x4096x16x320xbf16>, tensor<0xui8>)
    return %0#0, %1#0, %2#0, %3#0, %4#0, %5#0, %6#0, %7#0, %8#0, %9#0 : tensor<4x4096x16x64xbf16>, tensor<4x4096x16x128xbf16>, tensor<4x4096x16x192xbf16>, tensor<4x4096x16x256xbf16>, tensor<4x512x16x128xbf16>, tensor<1x65536x16x128xbf16>, tensor<32x1x16x128xbf16>, tensor<4x4096x16x128xf16>, tensor<4x4096x16x128xf32>, tensor<4x4096x16x320xbf16>
  }
}
