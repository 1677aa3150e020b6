// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Kernels that read different parts of a value share nothing.

// CHECK-LABEL: module @parts
module @parts {
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.slice %{{.*}} [0:524288]
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.slice %{{.*}} [524288:1048576]
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<524288xf32>, tensor<524288xf32>) {
    %0 = stablehlo.slice %x [0:524288] : (tensor<1048576xf32>) -> tensor<524288xf32>
    %1 = stablehlo.slice %x [524288:1048576] : (tensor<1048576xf32>) -> tensor<524288xf32>
    %2 = stablehlo.tanh %0 : tensor<524288xf32>
    %3 = stablehlo.cosine %1 : tensor<524288xf32>
    return %2, %3 : tensor<524288xf32>, tensor<524288xf32>
  }
}

// -----

/// Those that read parts of a part at a computed place are one kernel, as by jaxlib 0.12.

// CHECK-LABEL: module @parts_of_layer
module @parts_of_layer {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"(%arg0, %arg1)
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<4x1048576xf32>, %i: tensor<i32>) -> (tensor<1x524288xf32>, tensor<1x524288xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 1048576] : (tensor<4x1048576xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1048576xf32>
    %1 = stablehlo.slice %0 [0:1, 0:524288] : (tensor<1x1048576xf32>) -> tensor<1x524288xf32>
    %2 = stablehlo.slice %0 [0:1, 524288:1048576] : (tensor<1x1048576xf32>) -> tensor<1x524288xf32>
    return %1, %2 : tensor<1x524288xf32>, tensor<1x524288xf32>
  }
}

// -----

/// A reduction and a transpose have no loop in common.

// CHECK-LABEL: module @heroes
module @heroes {
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: stablehlo.transpose
  // CHECK: {hespas.kernel = {kind = "transpose"}}
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<512x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.tanh %x : tensor<1024x512xf32>
    %c = stablehlo.cosine %x : tensor<1024x512xf32>
    %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.transpose %c, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    return %0, %1 : tensor<1024xf32>, tensor<512x1024xf32>
  }
}

// -----

/// Nor have reductions of rows and of columns; an elementwise op of the size of one goes with it.

// CHECK-LABEL: module @sizes
module @sizes {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"(
  // CHECK: stablehlo.ceil
  // CHECK: across dimensions = [1]
  // CHECK: "mhlo.fusion"(
  // CHECK: stablehlo.floor
  // CHECK: across dimensions = [0]
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<2048x512xf32>) -> (tensor<1024xf32>, tensor<512xf32>, tensor<1024x512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.abs %x : tensor<1024x512xf32>
    %c = stablehlo.floor %x : tensor<1024x512xf32>
    %n = stablehlo.ceil %x : tensor<1024x512xf32>
    %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    return %0, %1, %n : tensor<1024xf32>, tensor<512xf32>, tensor<1024x512xf32>
  }
}

// -----

/// One kernel has at most 8 reductions.

// CHECK-LABEL: module @many
module @many {
  // CHECK: %{{.*}}:8 = "mhlo.fusion"(%arg0)
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.log
  // CHECK: stablehlo.reduce
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1024x4096xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %c0 = stablehlo.tanh %x : tensor<1024x4096xf32>
    %c1 = stablehlo.cosine %x : tensor<1024x4096xf32>
    %c2 = stablehlo.sine %x : tensor<1024x4096xf32>
    %c3 = stablehlo.exponential %x : tensor<1024x4096xf32>
    %c4 = stablehlo.negate %x : tensor<1024x4096xf32>
    %c5 = stablehlo.abs %x : tensor<1024x4096xf32>
    %c6 = stablehlo.sqrt %x : tensor<1024x4096xf32>
    %c7 = stablehlo.rsqrt %x : tensor<1024x4096xf32>
    %c8 = stablehlo.log %x : tensor<1024x4096xf32>
    %0 = stablehlo.reduce(%c0 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.reduce(%c1 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = stablehlo.reduce(%c2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %3 = stablehlo.reduce(%c3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %4 = stablehlo.reduce(%c4 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %5 = stablehlo.reduce(%c5 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %6 = stablehlo.reduce(%c6 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %7 = stablehlo.reduce(%c7 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    %8 = stablehlo.reduce(%c8 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<1024x4096xf32>, tensor<f32>) -> tensor<1024xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// A producer does not join a reader that also needs it through another op.

// CHECK-LABEL: module @through
module @through {
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: %[[C:.*]] = stablehlo.custom_call @kernel(%[[T]])
  // CHECK: stablehlo.add %[[C]], %[[T]]
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
    %0 = stablehlo.tanh %x : tensor<1048576xf32>
    %1 = stablehlo.custom_call @kernel(%0) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %2 = stablehlo.add %1, %0 : tensor<1048576xf32>
    return %2 : tensor<1048576xf32>
  }
}

// -----

/// A normalised row is read by another loop from memory.

// CHECK-LABEL: module @after_rows
module @after_rows {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.subtract
  // CHECK: mhlo.return
  // CHECK: "mhlo.fusion"(%[[F]])
  // CHECK: stablehlo.transpose
  func.func @main(%x: tensor<512x1024xf32>) -> tensor<1024xf32> {
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %ninf) applies stablehlo.maximum across dimensions = [1] : (tensor<512x1024xf32>, tensor<f32>) -> tensor<512xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<512xf32>) -> tensor<512x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<512x1024xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<512x1024xf32>) -> tensor<1024x512xf32>
    %4 = stablehlo.slice %3 [0:1024, 0:1] : (tensor<1024x512xf32>) -> tensor<1024x1xf32>
    %5 = stablehlo.reshape %4 : (tensor<1024x1xf32>) -> tensor<1024xf32>
    return %5 : tensor<1024xf32>
  }
}

// -----

/// Reductions of columns have tiles in the shared memory of a thread block, which holds two of floats.

// CHECK-LABEL: module @shared_memory
module @shared_memory {
  // CHECK: %{{.*}}:2 = "mhlo.fusion"(%arg0)
  // CHECK: %{{.*}}:2 = "mhlo.fusion"(%arg0)
  // CHECK: %{{.*}}:2 = "mhlo.fusion"(%arg0)
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %c0 = stablehlo.sign %x : tensor<1024x512xf32>
    %c1 = stablehlo.floor %x : tensor<1024x512xf32>
    %c2 = stablehlo.ceil %x : tensor<1024x512xf32>
    %c3 = stablehlo.round_nearest_even %x : tensor<1024x512xf32>
    %c4 = stablehlo.negate %x : tensor<1024x512xf32>
    %c5 = stablehlo.abs %x : tensor<1024x512xf32>
    %0 = stablehlo.reduce(%c0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %1 = stablehlo.reduce(%c1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %2 = stablehlo.reduce(%c2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %3 = stablehlo.reduce(%c3 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %4 = stablehlo.reduce(%c4 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    %5 = stablehlo.reduce(%c5 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    return %0, %1, %2, %3, %4, %5 : tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>
  }
}
