// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB | filecheck %s --check-prefix=PLAIN
// RUN: hespas-opt %s --calibrated-annotate="node=B200_180GB attention=cudnn-fp8" | filecheck %s
// RUN: not hespas-opt %s --calibrated-annotate="node=A100_SXM_80GB attention=cudnn-fp8" 2>&1 | filecheck %s --check-prefix=NODE
// RUN: rm -rf %t && mkdir -p %t && printf '{"name": "times", "description": "d", "times": [{"nodes": ["B200_180GB"], "forward": {"queries": [1024, 2048], "head_size": [64], "factor": [1]}, "backward": {"queries": [1024], "head_size": [64], "factor": [1]}, "source": "s"}]}' > %t/times.json
// RUN: not hespas-opt %s --calibrated-annotate="node=B200_180GB attention=%t/times.json" 2>&1 | filecheck %s --check-prefix=LENGTH

/// A library may be described by its time beside that of cuDNN in 16 bits: 0.78 of it for 4,096 queries. A size that was
/// not measured has the factor of the nearest one.

// NODE: error: {{.*}}the rates of cudnn-fp8 on A100_SXM_80GB are not known; use attention=cudnn, or one of the nodes
// LENGTH: error: {{.*}}factor needs one number for each pair of queries and head_size
func.func @main(%x0: tensor<2x4096x64x128xbf16>, %x1: tensor<2x1024x64x128xbf16>) -> (tensor<2x4096x64x128xbf16>, tensor<2x1024x64x128xbf16>) {
  // PLAIN: stablehlo.custom_call{{.*}} latency_ns = 641787.7321{{.*}}
  // CHECK: stablehlo.custom_call{{.*}} latency_ns = 500594.4310{{.*}}
  %0:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x0, %x0, %x0) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\222\22,\2264\22,\224096\22,\224096\22]}}}"} : (tensor<2x4096x64x128xbf16>, tensor<2x4096x64x128xbf16>, tensor<2x4096x64x128xbf16>) -> (tensor<2x4096x64x128xbf16>, tensor<0xui8>)
  // PLAIN: stablehlo.custom_call{{.*}} latency_ns = 108784.1892{{.*}}
  // CHECK: stablehlo.custom_call{{.*}} latency_ns = 84416.5308{{.*}} tag = "extrapolated"
  %1:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%x1, %x1, %x1) {backend_config = "{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22CAUSAL\22,\22intermediate_tensor_shape\22:{\22dimensions\22:[\222\22,\2264\22,\221024\22,\221024\22]}}}"} : (tensor<2x1024x64x128xbf16>, tensor<2x1024x64x128xbf16>, tensor<2x1024x64x128xbf16>) -> (tensor<2x1024x64x128xbf16>, tensor<0xui8>)
  return %0#0, %1#0 : tensor<2x4096x64x128xbf16>, tensor<2x1024x64x128xbf16>
}
