// RUN: hespas-opt %s --annotate=node=A100_SXM_40GB | filecheck %s
// RUN: hespas-opt %s --annotate="estimator=roofline node=A100_SXM_40GB" | filecheck %s
// RUN: not hespas-opt %s --annotate=estimator=rofline 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not hespas-opt %s --annotate=settings=launch-ns=3 2>&1 | filecheck %s --check-prefix=SETTING

/// Any estimator by name; the roofline where none is named.

// CHECK: hespas.target = {constants = "A100_SXM_40GB", {{.*}}estimator = "roofline 1", {{.*}}node = "A100_SXM_40GB"
// NAME: error: no estimator is named 'rofline'; did you mean 'roofline'?
// SETTING: error: roofline has no setting 'launch-ns'
module {
  // CHECK: stablehlo.tanh {{.*}}hespas.cost = {bound = "memory", {{.*}}estimator = "roofline"
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
