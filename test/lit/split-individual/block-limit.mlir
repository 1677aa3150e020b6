// RUN: hespas-opt %s --split-individual="merge block-limit=2" | filecheck %s
// RUN: hespas-opt %s --split-individual="merge block-limit=2" --split-individual="merge block-limit=2" | filecheck %s
// RUN: hespas-opt %s --split-individual=merge | filecheck %s --check-prefix=FREE

/// A limit cuts merged regions in program order; equal ones share a function.

// CHECK: hespas.split = {block_limit = 2 : i64, merge = true, strategy = "individual"}
// CHECK: %[[A:.*]] = call @[[F:region_0]](%arg0) {{.*}}ops = 2
// CHECK-NEXT: %[[B:.*]] = call @[[F]](%[[A]]) {{.*}}ops = 2
// CHECK-NEXT: stablehlo.tanh %[[B]] {{.*}}id = {{[0-9]+}} : i64}
// FREE: call @region_0(%arg0) {{.*}}ops = 5
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  %2 = stablehlo.tanh %1 : tensor<8xf32>
  %3 = stablehlo.negate %2 : tensor<8xf32>
  %4 = stablehlo.tanh %3 : tensor<8xf32>
  return %4 : tensor<8xf32>
}
