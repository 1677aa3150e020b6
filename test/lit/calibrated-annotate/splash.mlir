// RUN: hespas-opt %s --calibrated-annotate=node=TPUv6e | filecheck %s

/// Splash attention of a TPU has its shape in its operands and its metadata. Its gradients have no factor of their own.

// CHECK: hespas.cost = {{.*}}kernel_class = "attention"{{.*}}tag = "assumed"{{.*}}kernel_name = "splash_mha_fwd_residuals"
// CHECK: hespas.cost = {{.*}}kernel_class = "attention"{{.*}}tag = "assumed transferred"{{.*}}kernel_name = "splash_mha_dkv_no_residuals"
func.func public @main(%table: tensor<1x4x4xi8>, %q: tensor<4x2048x128xbf16>, %k: tensor<2x2048x128xbf16>, %position: tensor<2048x128xi32>) -> (tensor<4x2048x128xbf16>, tensor<4x2048x128xbf16>) {
  %0 = stablehlo.custom_call @tpu_custom_call(%table, %table, %q, %k, %k, %position)
    {kernel_name = "splash_mha_fwd_residuals", mhlo.frontend_attributes = {kernel_metadata = "{\22block_q\22: 512, \22block_kv\22: 512, \22block_q_dq\22: 512, \22block_kv_dq\22: 512}"}}
    : (tensor<1x4x4xi8>, tensor<1x4x4xi8>, tensor<4x2048x128xbf16>, tensor<2x2048x128xbf16>, tensor<2x2048x128xbf16>, tensor<2048x128xi32>) -> tensor<4x2048x128xbf16>
  %1 = stablehlo.custom_call @tpu_custom_call(%table, %table, %q, %k, %k, %q, %position)
    {kernel_name = "splash_mha_dkv_no_residuals", mhlo.frontend_attributes = {kernel_metadata = "block_q_dkv=512 block_kv_dkv=512"}}
    : (tensor<1x4x4xi8>, tensor<1x4x4xi8>, tensor<4x2048x128xbf16>, tensor<2x2048x128xbf16>, tensor<2x2048x128xbf16>, tensor<4x2048x128xbf16>, tensor<2048x128xi32>) -> tensor<4x2048x128xbf16>
  return %0, %1 : tensor<4x2048x128xbf16>, tensor<4x2048x128xbf16>
}
