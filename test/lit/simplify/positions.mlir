// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// The largest element is the one at the position that another reduction finds.

// CHECK-LABEL: module @largest
module @largest {
  // CHECK: %[[R:.*]]:2 = stablehlo.reduce
  // CHECK-NOT: stablehlo.reduce(
  // CHECK: return %[[R]]#1, %[[R]]#0
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}

// -----

/// So is the smallest, also if it is reduced before.

// CHECK-LABEL: module @smallest
module @smallest {
  // CHECK: stablehlo.iota
  // CHECK-NEXT: stablehlo.constant dense<0>
  // CHECK: %[[R:.*]]:2 = stablehlo.reduce
  // CHECK-NOT: stablehlo.reduce(
  // CHECK: return %[[R]]#1, %[[R]]#0
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.minimum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}

// -----

/// Integers are all numbers.

// CHECK-LABEL: module @integers
module @integers {
  // CHECK: %[[R:.*]]:2 = stablehlo.reduce
  // CHECK-NOT: stablehlo.reduce(
  // CHECK: return %[[R]]#1, %[[R]]#0
  func.func @main(%x: tensor<64x256xi32>) -> (tensor<64xi32>, tensor<64xi32>) {
    %low = stablehlo.constant dense<-2147483648> : tensor<i32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xi32>, tensor<64x256xi32>, tensor<i32>, tensor<i32>) -> (tensor<64xi32>, tensor<64xi32>)
     reducer(%a: tensor<i32>, %b: tensor<i32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %c = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<i32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<i32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x256xi32>, tensor<i32>) -> tensor<64xi32>
    return %0#1, %1 : tensor<64xi32>, tensor<64xi32>
  }
}

// -----

/// It is not that of another dimension,

// CHECK-LABEL: module @other_dimension
module @other_dimension {
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<256xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x256xf32>, tensor<f32>) -> tensor<256xf32>
    return %0#1, %1 : tensor<64xi32>, tensor<256xf32>
  }
}

// -----

/// nor the smallest where the position is that of the largest,

// CHECK-LABEL: module @other_direction
module @other_direction {
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %low2 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low2) applies stablehlo.minimum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}

// -----

/// nor what a position without a rule for what is no number gives,

// CHECK-LABEL: module @not_a_number
module @not_a_number {
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %c = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}

// -----

/// nor the element that is not selected,

// CHECK-LABEL: module @other_selection
module @other_selection {
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %b, %a : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}

// -----

/// nor what a body computes otherwise,

// CHECK-LABEL: module @no_selection
module @no_selection {
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  func.func @main(%x: tensor<64x256xf32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %i = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.maximum %a, %b : tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}

// -----

/// nor one whose position is computed of what comes later.

// CHECK-LABEL: module @later
module @later {
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  // CHECK: stablehlo.reduce({{.*}} across dimensions
  func.func @main(%x: tensor<64x256xf32>, %y: tensor<64x256xi32>) -> (tensor<64xi32>, tensor<64xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
    %i = stablehlo.negate %y : tensor<64x256xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<64x256xf32>, tensor<64x256xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<f32>, tensor<i32>
    }
    return %0#1, %1 : tensor<64xi32>, tensor<64xf32>
  }
}
