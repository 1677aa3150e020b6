// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s

/// A call of cuBLAS is a kernel that XLA has chosen, which has constants of its own; a product by itself, and one in a fusion
/// that XLA makes of no product, is not.

// CHECK: stablehlo.dot_general {{.*}}kernel_class = "product.bf16_sustained"
// CHECK: @__cublas$gemm{{.*}}kernel_class = "product.bf16_xla"
// CHECK: }) {hespas.cost = {{.*}}kernel_class = "product.bf16_sustained"
module {
  func.func @main(%x: tensor<1024x4096xbf16>, %y: tensor<4096x1024xbf16>) -> (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<1024x1024xbf16>
    %1 = stablehlo.custom_call @__cublas$gemm(%x, %y) {backend_config = "{\22gemm_backend_config\22:{\22dot_dimension_numbers\22:{\22lhs_contracting_dimensions\22:[\221\22],\22rhs_contracting_dimensions\22:[\220\22]}}}"} : (tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<1024x1024xbf16>
    %2 = "mhlo.fusion"(%x, %y) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024x4096xbf16>, %b: tensor<4096x1024xbf16>):
      %3 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<1024x1024xbf16>
      mhlo.return %3 : tensor<1024x1024xbf16>
    }) : (tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<1024x1024xbf16>
    return %0, %1, %2 : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>
  }
}
