// RUN: hespas-opt %s --memory-annotate=model-fusion=false | filecheck %s

/// The timeline of a long program has the highest of each few points: here of three, of 1,025. @f0 makes a product beside
/// its argument, and then one more; it runs 512 times, with the argument of the program live beside it.

// CHECK: live_bytes = 16384 : i64
// CHECK-SAME: points = 1025 : i64
// CHECK-SAME: timeline_bytes = array<i64: 12288, 16384, 16384, 16384, 16384,
// CHECK-SAME: 16384, 16384>
// CHECK-SAME: timeline_points = array<i64: 1, 3, 7, 9, 13,
// CHECK-SAME: 1021, 1023>
module {
  func.func public @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f9(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
  func.func private @f0(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.dot %0, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f1(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f0(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f0(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f2(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f1(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f1(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f3(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f2(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f2(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f4(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f3(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f3(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f5(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f4(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f4(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f6(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f5(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f5(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f7(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f6(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f6(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f8(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f7(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f7(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @f9(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = call @f8(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = call @f8(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}
