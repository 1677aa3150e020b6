// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s

/// Lanes run as often as the condition of the loop allows if the body keeps their values by the same
/// condition.

/// So may a body that computes its condition with the same ops, of which one reads other values.

// CHECK-LABEL: module @other_wiring
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_wiring {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %sum = stablehlo.reduce(%y init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
       reducer(%a: tensor<f32>, %b: tensor<f32>) {
        %half = stablehlo.tanh %a : tensor<f32>
        %less = stablehlo.subtract %half, %b : tensor<f32>
        stablehlo.return %less : tensor<f32>
      }
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%y init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
       reducer(%a: tensor<f32>, %b: tensor<f32>) {
        %half = stablehlo.tanh %a : tensor<f32>
        %less = stablehlo.subtract %b, %half : tensor<f32>
        stablehlo.return %less : tensor<f32>
      }
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// Bodies that are wired in the same way are equal.

// CHECK-LABEL: module @equal_wiring
// CHECK: hespas.trips = 20 : i64, hespas.trips_note = "maximum trip count 20 assumed: it depends on data"
module @equal_wiring {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %sum = stablehlo.reduce(%y init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
       reducer(%a: tensor<f32>, %b: tensor<f32>) {
        %half = stablehlo.tanh %a : tensor<f32>
        %less = stablehlo.subtract %half, %b : tensor<f32>
        stablehlo.return %less : tensor<f32>
      }
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%y init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
       reducer(%a: tensor<f32>, %b: tensor<f32>) {
        %half = stablehlo.tanh %a : tensor<f32>
        %less = stablehlo.subtract %half, %b : tensor<f32>
        stablehlo.return %less : tensor<f32>
      }
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// So may one that reads another result of such an op.

// CHECK-LABEL: module @other_result
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_result {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %sums:2 = stablehlo.reduce(%y init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
       reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) {
        %most = stablehlo.maximum %a, %c : tensor<f32>
        %least = stablehlo.minimum %b, %d : tensor<f32>
        stablehlo.return %most, %least : tensor<f32>, tensor<f32>
      }
      %sum = stablehlo.reshape %sums#0 : (tensor<8xf32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sums:2 = stablehlo.reduce(%y init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
       reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) {
        %most = stablehlo.maximum %a, %c : tensor<f32>
        %least = stablehlo.minimum %b, %d : tensor<f32>
        stablehlo.return %most, %least : tensor<f32>, tensor<f32>
      }
      %sum = stablehlo.reshape %sums#1 : (tensor<8xf32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// So may one in which an op reads another value from outside of its branches.

// CHECK-LABEL: module @other_captured
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_captured {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %index = stablehlo.constant dense<0> : tensor<i32>
      %rows = stablehlo.slice %y [0:8, 0:1] : (tensor<8x4xf32>) -> tensor<8x1xf32>
      %row = stablehlo.reshape %rows : (tensor<8x1xf32>) -> tensor<8xf32>
      %sum = "stablehlo.case"(%index) ({
        %t = stablehlo.tanh %row : tensor<8xf32>
        stablehlo.return %t : tensor<8xf32>
      }, {
        stablehlo.return %row : tensor<8xf32>
      }) : (tensor<i32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %index = stablehlo.constant dense<0> : tensor<i32>
      %rows = stablehlo.slice %y [0:8, 1:2] : (tensor<8x4xf32>) -> tensor<8x1xf32>
      %row = stablehlo.reshape %rows : (tensor<8x1xf32>) -> tensor<8xf32>
      %sum = "stablehlo.case"(%index) ({
        %t = stablehlo.tanh %row : tensor<8xf32>
        stablehlo.return %t : tensor<8xf32>
      }, {
        stablehlo.return %row : tensor<8xf32>
      }) : (tensor<i32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// With the same value it is equal.

// CHECK-LABEL: module @equal_captured
// CHECK: hespas.trips = 20 : i64, hespas.trips_note = "maximum trip count 20 assumed: it depends on data"
module @equal_captured {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %index = stablehlo.constant dense<0> : tensor<i32>
      %rows = stablehlo.slice %y [0:8, 1:2] : (tensor<8x4xf32>) -> tensor<8x1xf32>
      %row = stablehlo.reshape %rows : (tensor<8x1xf32>) -> tensor<8xf32>
      %sum = "stablehlo.case"(%index) ({
        %t = stablehlo.tanh %row : tensor<8xf32>
        stablehlo.return %t : tensor<8xf32>
      }, {
        stablehlo.return %row : tensor<8xf32>
      }) : (tensor<i32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %index = stablehlo.constant dense<0> : tensor<i32>
      %rows = stablehlo.slice %y [0:8, 1:2] : (tensor<8x4xf32>) -> tensor<8x1xf32>
      %row = stablehlo.reshape %rows : (tensor<8x1xf32>) -> tensor<8xf32>
      %sum = "stablehlo.case"(%index) ({
        %t = stablehlo.tanh %row : tensor<8xf32>
        stablehlo.return %t : tensor<8xf32>
      }, {
        stablehlo.return %row : tensor<8xf32>
      }) : (tensor<i32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// So may one that rounds what it compares.

// CHECK-LABEL: module @other_type
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_type {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %total = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %whole = stablehlo.convert %total : (tensor<8xf32>) -> tensor<8xi32>
      %sum = stablehlo.convert %total : (tensor<8xf32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %total = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %whole = stablehlo.convert %total : (tensor<8xf32>) -> tensor<8xi32>
      %sum = stablehlo.convert %whole : (tensor<8xi32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}
