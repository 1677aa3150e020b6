// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s
// RUN: hespas-opt %s --form-kernels --form-kernels --split-input-file | filecheck %s

/// Loop bodies are fused; a slice of a stacked weight is read inside, an update is made in place,
/// and neither crosses the loop.

// CHECK-LABEL: module @loop
module @loop {
  // CHECK: stablehlo.negate %arg0
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: "mhlo.fusion"({{.*}} kLoop
  // CHECK: stablehlo.dynamic_slice
  // CHECK: stablehlo.add
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: mhlo.return
  // CHECK: {hespas.kernel = {kind = "loop"}} : {{.*}} -> tensor<10x64xf32>
  // CHECK: stablehlo.return
  // CHECK: stablehlo.tanh
  func.func @main(%w: tensor<10x64xf32>) -> tensor<10x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.negate %w : tensor<10x64xf32>
    %0:2 = stablehlo.while(%i = %zero, %x = %n) : tensor<i32>, tensor<10x64xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %row = stablehlo.dynamic_slice %w, %i, %zero, sizes = [1, 64] : (tensor<10x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
      %new = stablehlo.add %row, %row : tensor<1x64xf32>
      %y = stablehlo.dynamic_update_slice %x, %new, %i, %zero : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
      stablehlo.return %next, %y : tensor<i32>, tensor<10x64xf32>
    }
    %1 = stablehlo.tanh %0#1 : tensor<10x64xf32>
    return %1 : tensor<10x64xf32>
  }
}

// -----

/// The buffer of an update in place is not computed in the kernel that updates it, unless elementwise ops do it.

// CHECK-LABEL: module @in_place
module @in_place {
  // CHECK: %[[N:.*]] = stablehlo.reverse %arg0
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[N]]
  func.func @main(%w: tensor<10x64xf32>, %r: tensor<1x64xf32>, %i: tensor<i32>) -> tensor<10x64xf32> {
    %n = stablehlo.reverse %w, dims = [0] : tensor<10x64xf32>
    %y = stablehlo.dynamic_update_slice %n, %r, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
    return %y : tensor<10x64xf32>
  }
}

// -----

/// What has no static shape stays as it is.

// CHECK-LABEL: module @dynamic
module @dynamic {
  // CHECK: %[[D:.*]] = stablehlo.dynamic_reshape
  // CHECK-NEXT: stablehlo.transpose %[[D]]
  func.func @main(%x: tensor<8xf32>, %n: tensor<2xi64>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dynamic_reshape %x, %n : (tensor<8xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
