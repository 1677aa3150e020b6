// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --roofline-annotate=node=A100_SXM_40GB --split-input-file | filecheck %s

/// Passes after a split may copy an op with its mark: each region has an id and a digest of its own again.

// CHECK-LABEL: module @copied
// CHECK: stablehlo.tanh {{.*}}hespas.region = {digest = "[[A:[0-9a-f]+]]", id = 0 : i64}
// CHECK: stablehlo.sine {{.*}}hespas.region = {digest = "{{[0-9a-f]+}}", id = 2 : i64}
// CHECK: stablehlo.tanh {{.*}}hespas.region = {digest = "[[A]]", id = 1 : i64}
// CHECK: stablehlo.abs
// CHECK-NOT: hespas.region
module @copied attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.region = {digest = "x", id = 0 : i64, ops = 1 : i64}} : tensor<4xf32>
    %1 = stablehlo.sine %0 {hespas.region = {digest = "x", id = 0 : i64, ops = 1 : i64}} : tensor<4xf32>
    %2 = stablehlo.tanh %1 {hespas.region = {digest = "x", id = 1 : i64, ops = 1 : i64}} : tensor<4xf32>
    %3 = stablehlo.abs %2 : tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}

// -----

/// Or they change the function of a region, and call it without a mark. The function has the lowest id of its calls.

// CHECK-LABEL: module @calls
// CHECK: call @region_0(%{{.*}}hespas.region = {digest = "[[D:[0-9a-f]+]]", id = 4 : i64, ops = 2 : i64}
// CHECK: call @region_0(%{{.*}}hespas.region = {digest = "[[D]]", id = 3 : i64, ops = 2 : i64}
// CHECK: call @region_0(%{{.*}}hespas.region = {digest = "[[D]]", id = 5 : i64, ops = 2 : i64}
// CHECK: func.func private @region_0({{.*}}hespas.region = {digest = "[[D]]", id = 3 : i64, ops = 2 : i64}
// CHECK-NEXT: stablehlo.tanh
// CHECK-NOT: hespas.region
module @calls attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @region_0(%x) {hespas.region = {digest = "x", id = 4 : i64, ops = 3 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @region_0(%0) {hespas.region = {digest = "x", id = 3 : i64, ops = 3 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = call @region_0(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @region_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hespas.region = {digest = "x", id = 0 : i64, ops = 3 : i64}} {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    %1 = stablehlo.negate %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
