// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// Two reductions, one of which multiplies by the source of what both read, read this source once for each: they
/// compute what five vectors limit, and what six limit is apart. (XLA of jaxlib 0.12.0.1.)

// CHECK-LABEL: module @five_vectors
module @five_vectors {
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"{{.*}} kInput
  // CHECK: return %[[F]]#2, %[[F]]#0, %[[F]]#1
  func.func @main(%x: tensor<128x392x128xf32>, %v0: tensor<128xf32>, %v1: tensor<128xf32>, %v2: tensor<128xf32>, %v3: tensor<128xf32>, %v4: tensor<128xf32>) -> (tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b0 = stablehlo.broadcast_in_dim %v0, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y0 = stablehlo.minimum %x, %b0 : tensor<128x392x128xf32>
    %b1 = stablehlo.broadcast_in_dim %v1, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y1 = stablehlo.minimum %y0, %b1 : tensor<128x392x128xf32>
    %b2 = stablehlo.broadcast_in_dim %v2, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y2 = stablehlo.minimum %y1, %b2 : tensor<128x392x128xf32>
    %b3 = stablehlo.broadcast_in_dim %v3, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y3 = stablehlo.minimum %y2, %b3 : tensor<128x392x128xf32>
    %b4 = stablehlo.broadcast_in_dim %v4, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y4 = stablehlo.minimum %y3, %b4 : tensor<128x392x128xf32>
    %r = stablehlo.reduce(%y4 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    %q = stablehlo.multiply %y4, %x : tensor<128x392x128xf32>
    %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    return %y4, %r, %s : tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
  }
}

// -----

// CHECK-LABEL: module @six_vectors
module @six_vectors {
  // CHECK: %[[Y:.*]] = "mhlo.fusion"{{.*}} kLoop
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%[[Y]], %arg0) {{.*}} kInput
  // CHECK: return %[[Y]], %[[F]]#0, %[[F]]#1
  func.func @main(%x: tensor<128x392x128xf32>, %v0: tensor<128xf32>, %v1: tensor<128xf32>, %v2: tensor<128xf32>, %v3: tensor<128xf32>, %v4: tensor<128xf32>, %v5: tensor<128xf32>) -> (tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b0 = stablehlo.broadcast_in_dim %v0, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y0 = stablehlo.minimum %x, %b0 : tensor<128x392x128xf32>
    %b1 = stablehlo.broadcast_in_dim %v1, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y1 = stablehlo.minimum %y0, %b1 : tensor<128x392x128xf32>
    %b2 = stablehlo.broadcast_in_dim %v2, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y2 = stablehlo.minimum %y1, %b2 : tensor<128x392x128xf32>
    %b3 = stablehlo.broadcast_in_dim %v3, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y3 = stablehlo.minimum %y2, %b3 : tensor<128x392x128xf32>
    %b4 = stablehlo.broadcast_in_dim %v4, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y4 = stablehlo.minimum %y3, %b4 : tensor<128x392x128xf32>
    %b5 = stablehlo.broadcast_in_dim %v5, dims = [2] : (tensor<128xf32>) -> tensor<128x392x128xf32>
    %y5 = stablehlo.minimum %y4, %b5 : tensor<128x392x128xf32>
    %r = stablehlo.reduce(%y5 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    %q = stablehlo.multiply %y5, %x : tensor<128x392x128xf32>
    %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x392x128xf32>, tensor<f32>) -> tensor<128x128xf32>
    return %y5, %r, %s : tensor<128x392x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
  }
}

// -----

/// Ops that read groups of a value read it once each, and not with the op that reads it as it is: its sine would be
/// computed three times. With groups of one there is one loop. (XLA of jaxlib 0.12.0.1.)

// CHECK-LABEL: module @groups
module @groups {
  // CHECK: %[[Y:.*]] = stablehlo.sine %arg0
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"({{.*}}%[[Y]]{{.*}} kLoop
  // CHECK: return %[[F]]#
  func.func @main(%x: tensor<8x4096x320xf32>, %s: tensor<8x32xf32>) -> (tensor<8x4096x32x10xf32>, tensor<8x4096x32x10xf32>, tensor<8x4096x320xf32>) {
    %y = stablehlo.sine %x : tensor<8x4096x320xf32>
    %g = stablehlo.reshape %y : (tensor<8x4096x320xf32>) -> tensor<8x4096x32x10xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<8x32xf32>) -> tensor<8x4096x32x10xf32>
    %0 = stablehlo.multiply %g, %b : tensor<8x4096x32x10xf32>
    %1 = stablehlo.maximum %g, %b : tensor<8x4096x32x10xf32>
    %2 = stablehlo.add %y, %y : tensor<8x4096x320xf32>
    return %0, %1, %2 : tensor<8x4096x32x10xf32>, tensor<8x4096x32x10xf32>, tensor<8x4096x320xf32>
  }
}

// -----

// CHECK-LABEL: module @single_groups
module @single_groups {
  // CHECK-NOT: stablehlo.sine %arg0
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"({{.*}} kLoop
  // CHECK: return %[[F]]#
  func.func @main(%x: tensor<8x4096x320xf32>, %s: tensor<8x320xf32>) -> (tensor<8x4096x320x1xf32>, tensor<8x4096x320x1xf32>, tensor<8x4096x320xf32>) {
    %y = stablehlo.sine %x : tensor<8x4096x320xf32>
    %g = stablehlo.reshape %y : (tensor<8x4096x320xf32>) -> tensor<8x4096x320x1xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<8x320xf32>) -> tensor<8x4096x320x1xf32>
    %0 = stablehlo.multiply %g, %b : tensor<8x4096x320x1xf32>
    %1 = stablehlo.maximum %g, %b : tensor<8x4096x320x1xf32>
    %2 = stablehlo.add %y, %y : tensor<8x4096x320xf32>
    return %0, %1, %2 : tensor<8x4096x320x1xf32>, tensor<8x4096x320x1xf32>, tensor<8x4096x320xf32>
  }
}
