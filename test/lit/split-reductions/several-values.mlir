// RUN: hespas-opt %s --split-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-reductions --split-reductions --split-input-file | filecheck %s

/// The largest element and its position are reduced in parts together.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: %[[X:.*]] = stablehlo.reshape %arg0 : (tensor<512x128000xf32>) -> tensor<512x256x500xf32>
  // CHECK: %[[I:.*]] = stablehlo.reshape %{{.*}} : (tensor<512x128000xi32>) -> tensor<512x256x500xi32>
  // CHECK: %[[P:.*]]:2 = stablehlo.reduce(%[[X]] init: %{{.*}}), (%[[I]] init: %{{.*}}) across dimensions = [2] {{.*}} -> (tensor<512x256xf32>, tensor<512x256xi32>)
  // CHECK: %[[R:.*]]:2 = stablehlo.reduce(%[[P]]#0 init: %{{.*}}), (%[[P]]#1 init: %{{.*}}) across dimensions = [1] {{.*}} -> (tensor<512xf32>, tensor<512xi32>)
  // CHECK: return %[[R]]#0, %[[R]]#1
  func.func @main(%x: tensor<512x128000xf32>) -> (tensor<512xf32>, tensor<512xi32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %i = stablehlo.iota dim = 1 : tensor<512x128000xi32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<512x128000xf32>, tensor<512x128000xi32>, tensor<f32>, tensor<i32>) -> (tensor<512xf32>, tensor<512xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %1 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
      %3 = stablehlo.select %1, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<512xf32>, tensor<512xi32>
  }
}

// -----

/// What is added to the last part is the initial value of each.

// CHECK-LABEL: module @padded
module @padded {
  // CHECK: stablehlo.pad %arg0, %[[LOW:.*]], low = [0, 0], high = [0, {{[1-9].*}}]
  // CHECK: stablehlo.pad %{{.*}}, %[[ZERO:.*]], low = [0, 0], high = [0, {{[1-9].*}}]
  // CHECK: init: %[[LOW]]), ({{.*}} init: %[[ZERO]])
  // CHECK: init: %[[LOW]]), ({{.*}} init: %[[ZERO]])
  func.func @main(%x: tensor<64x50257xf32>) -> tensor<64xi32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %i = stablehlo.iota dim = 1 : tensor<64x50257xi32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x50257xf32>, tensor<64x50257xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %1 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
      %3 = stablehlo.select %1, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
    }
    return %0#1 : tensor<64xi32>
  }
}

// -----

/// Of dimensions that are no neighbours, several values stay one reduction.

// CHECK-LABEL: module @apart
module @apart {
  // CHECK: across dimensions = [0, 2]
  // CHECK-NOT: across dimensions
  func.func @main(%x: tensor<32x8x3xf32>, %i: tensor<32x8x3xi32>) -> tensor<8xi32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [0, 2] : (tensor<32x8x3xf32>, tensor<32x8x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %1 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
      %3 = stablehlo.select %1, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
    }
    return %0#1 : tensor<8xi32>
  }
}
