// RUN: hespas-opt %s --copy-carried-values --split-input-file | filecheck %s
// RUN: hespas-opt %s --copy-carried-values --copy-carried-values --split-input-file | filecheck %s

/// A value that takes the place of another one is copied, before a new value is written to its own place.

// CHECK-LABEL: module @shifted
// CHECK: %[[C:.*]] = mhlo.copy %[[B:.*]] :
// CHECK: %[[N:.*]] = stablehlo.tanh %[[B]] :
// CHECK-NEXT: stablehlo.return %{{.*}}, %[[C]], %[[N]] :
module @shifted {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.tanh %b : tensor<8x8xf32>
      stablehlo.return %next, %b, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// If the new value needs both places, it is copied too.

// CHECK-LABEL: module @both_read
// CHECK: %[[N:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<8x8xf32>
// CHECK: %[[C:.*]] = mhlo.copy %iterArg_1 :
// CHECK-NEXT: %[[D:.*]] = mhlo.copy %[[N]]
// CHECK: stablehlo.return %{{.*}}, %[[C]], %[[D]] :
module @both_read {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.add %a, %b : tensor<8x8xf32>
      stablehlo.return %next, %b, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Values that exchange their places need a third one.

// CHECK-LABEL: module @exchanged
// CHECK: %[[C:.*]] = mhlo.copy %[[B:.*]] :
// CHECK-NEXT: %[[E:.*]] = mhlo.copy
// CHECK-NEXT: %[[D:.*]] = mhlo.copy %[[C]]
// CHECK-NEXT: stablehlo.return %{{.*}}, %[[D]], %[[E]] :
module @exchanged {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b, %a : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// One buffer holds one value: a value that takes two places is copied to one of them.

// CHECK-LABEL: module @twice
// CHECK: %[[N:.*]] = stablehlo.tanh
// CHECK-NEXT: %[[C:.*]] = mhlo.copy %[[N]]
// CHECK-NEXT: stablehlo.return %{{.*}}, %[[N]], %[[C]] :
module @twice {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.tanh %a : tensor<8x8xf32>
      stablehlo.return %next, %n, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A value from outside the loop is copied in each step.

// CHECK-LABEL: module @outer
// CHECK: mhlo.copy %arg1
// CHECK-NOT: mhlo.copy
module @outer {
  func.func @main(%x0: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x0) : tensor<i32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %y : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// A view of the value is its buffer.

// CHECK-LABEL: module @view
// CHECK-NOT: mhlo.copy
module @view {
  func.func @main(%x0: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x0) : tensor<i32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %v = stablehlo.reshape %a : (tensor<8x8xf32>) -> tensor<64xf32>
      %e = stablehlo.tanh %v : tensor<64xf32>
      %n = stablehlo.reshape %e : (tensor<64xf32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// What a loop does not change is not copied, nor are single numbers.

// CHECK-LABEL: module @kept
// CHECK-NOT: mhlo.copy
module @kept {
  func.func @main(%x0: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x0) : tensor<i32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %a : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// Single numbers that exchange their places are not copied.

// CHECK-LABEL: module @numbers
// CHECK-NOT: mhlo.copy
module @numbers {
  func.func @main(%x0: tensor<f32>, %x1: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1) : tensor<i32>, tensor<f32>, tensor<f32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b, %a : tensor<i32>, tensor<f32>, tensor<f32>
    }
    return %0#1, %0#2 : tensor<f32>, tensor<f32>
  }
}

// -----

/// So is what an op before the loop has made.

// CHECK-LABEL: module @made_outside
// CHECK: %[[Y:.*]] = stablehlo.tanh
// CHECK: mhlo.copy %[[Y]]
// CHECK-NOT: mhlo.copy
module @made_outside {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.tanh %x1 : tensor<8x8xf32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x0) : tensor<i32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %y : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// A view of a value takes another place as a copy of the view.

// CHECK-LABEL: module @moved_view
// CHECK: stablehlo.reshape
// CHECK: %[[V:.*]] = stablehlo.reshape
// CHECK-NEXT: mhlo.copy %[[V]]
// CHECK-NOT: mhlo.copy
module @moved_view {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %v = stablehlo.reshape %b : (tensor<8x8xf32>) -> tensor<64xf32>
      %w = stablehlo.reshape %v : (tensor<64xf32>) -> tensor<8x8xf32>
      stablehlo.return %next, %w, %b : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Of values that follow each other, each is copied if the last needs all.

// CHECK-LABEL: module @rotated
// CHECK: %[[N:.*]] = stablehlo.clamp
// CHECK-NEXT: mhlo.copy %iterArg_1 :
// CHECK-NEXT: mhlo.copy %iterArg_2 :
// CHECK-NEXT: mhlo.copy %[[N]]
module @rotated {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>, %x2: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:4 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1, %d = %x2) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.clamp %a, %b, %d : tensor<8x8xf32>
      stablehlo.return %next, %b, %d, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2, %0#3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A value that takes one of two that exchange their places takes no part in that.

// CHECK-LABEL: module @into_a_cycle
// CHECK-COUNT-4: mhlo.copy
// CHECK-NOT: mhlo.copy
module @into_a_cycle {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>, %x2: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:4 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1, %d = %x2) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b, %d, %b : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2, %0#3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
