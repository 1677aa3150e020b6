// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate="node=A100_SXM_80GB attention=flash-attention-2" | filecheck %s --check-prefix=FLASH
// RUN: not hespas-opt %s --calibrated-annotate="node=Gaudi3 attention=flash-attention-2" 2>&1 | filecheck %s --check-prefix=NODE
// RUN: not hespas-opt %s --calibrated-annotate="node=A100_SXM_80GB attention=flash-attention-4" 2>&1 | filecheck %s --check-prefix=NAME

/// Fused attention takes the time of cuDNN, or that of another library where its rates are known.

// CHECK: kernel_class = "attention", latency_ns = {{[0-9]{5}[.]}}
// FLASH: kernel_class = "attention", latency_ns = {{[0-9]{4}[.]}}
// NODE: error: the rates of flash-attention-2 on Gaudi3 are not known; use attention=cudnn, or one of the nodes
// NAME: error: no library of fused attention is named 'flash-attention-4'; did you mean 'flash-attention-2'
func.func @main(%q: tensor<2x1024x4x64xbf16>) -> tensor<2x1024x4x64xbf16> {
  %0:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%q, %q, %q) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\222\22,\224\22,\221024\22,\221024\22]}}}"} : (tensor<2x1024x4x64xbf16>, tensor<2x1024x4x64xbf16>, tensor<2x1024x4x64xbf16>) -> (tensor<2x1024x4x64xbf16>, tensor<0xui8>)
  return %0#0 : tensor<2x1024x4x64xbf16>
}
