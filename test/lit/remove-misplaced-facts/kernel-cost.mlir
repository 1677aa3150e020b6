// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB,kernel-cost=acme=100:200 -o %t.annotated
// RUN: filecheck %s --input-file %t.annotated --check-prefix=DECLARED
// RUN: sed s/@acme/@zed/ %t.annotated > %t.renamed
// RUN: not hespas-opt %t.renamed --emit-chakra=output=%t.traces 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %t.renamed --remove-misplaced-facts | filecheck %s

/// What an option declared for a kernel is not the work of the kernel that another pass puts in its place; what
/// the author of the module states without a name is.

// DECLARED: @acme{{.*}}hespas.kernel_cost = {bytes = 200 : i64, flops = 100 : i64, kernel = "acme"}
// CHECK: @zed{{.*}}write_bytes = 200 : i64}} : (
// CHECK: @stated{{.*}}hespas.kernel_cost = {bytes = 8 : i64, flops = 4 : i64}
// OTHER: error: 'stablehlo.custom_call': custom call @zed has no cost rule in hespas or in a package; declare the work of zed with kernel-cost=zed=FLOPS:BYTES
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.custom_call @acme(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.custom_call @stated(%0) {hespas.kernel_cost = {bytes = 8 : i64, flops = 4 : i64}} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
