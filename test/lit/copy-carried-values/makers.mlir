// RUN: hespas-opt %s --copy-carried-values --split-input-file | filecheck %s
// RUN: hespas-opt %s --copy-carried-values --copy-carried-values --split-input-file | filecheck %s

/// An op that needs of each element only the one that it replaces writes to its place, also in a fusion.

// CHECK-LABEL: module @in_place
// CHECK-NOT: mhlo.copy
module @in_place {
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
      %m = "mhlo.fusion"(%b) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%f_b: tensor<8x8xf32>):
        %e = stablehlo.exponential %f_b : tensor<8x8xf32>
        %g = stablehlo.add %e, %f_b : tensor<8x8xf32>
        mhlo.return %g : tensor<8x8xf32>
      }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n, %m : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A product that reads the old value needs all of its rows and columns.

// CHECK-LABEL: module @product
// CHECK: %[[N:.*]] = stablehlo.dot_general
// CHECK-NEXT: %[[C:.*]] = mhlo.copy %[[N]]
// CHECK-NEXT: stablehlo.return %{{.*}}, %[[C]], %{{.*}} :
module @product {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %w = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n, %w : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// What reads the old value before the new one is made does not matter.

// CHECK-LABEL: module @before
// CHECK-NOT: mhlo.copy
module @before {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %w = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %n = stablehlo.tanh %d : tensor<8x8xf32>
      stablehlo.return %next, %n, %w : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A fusion that moves elements needs others than the one that it writes.

// CHECK-LABEL: module @transposed
// CHECK: %[[N:.*]] = "mhlo.fusion"
// CHECK: mhlo.copy %[[N]]
// CHECK-NOT: mhlo.copy
module @transposed {
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
      %n = "mhlo.fusion"(%a) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%f_a: tensor<8x8xf32>):
        %t = stablehlo.transpose %f_a, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
        %g = stablehlo.add %t, %f_a : tensor<8x8xf32>
        mhlo.return %g : tensor<8x8xf32>
      }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// A reduction beside the new value reads each element when that is written.

// CHECK-LABEL: module @reduced
// CHECK-NOT: mhlo.copy
module @reduced {
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
      %n:2 = "mhlo.fusion"(%a) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
      ^bb0(%f: tensor<8x8xf32>):
        %init = stablehlo.constant dense<0.0> : tensor<f32>
        %e = stablehlo.exponential %f : tensor<8x8xf32>
        %r = stablehlo.reduce(%f init: %init) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
        mhlo.return %e, %r : tensor<8x8xf32>, tensor<8xf32>
      }) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
      stablehlo.return %next, %n#0 : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// An op that needs the new value reads the old one too late.

// CHECK-LABEL: module @after
// CHECK: %[[N:.*]] = stablehlo.tanh
// CHECK: %[[M:.*]] = stablehlo.multiply
// CHECK-NEXT: %[[C:.*]] = mhlo.copy %[[N]]
// CHECK-NOT: mhlo.copy
// CHECK: stablehlo.return %{{.*}}, %[[C]], %[[M]] :
module @after {
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
      %s = stablehlo.add %n, %a : tensor<8x8xf32>
      %m = stablehlo.multiply %s, %b : tensor<8x8xf32>
      stablehlo.return %next, %n, %m : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// One that does not need it runs before.

// CHECK-LABEL: module @independent
// CHECK-NOT: mhlo.copy
module @independent {
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
      %s = stablehlo.cosine %a : tensor<8x8xf32>
      %m = stablehlo.multiply %s, %b : tensor<8x8xf32>
      stablehlo.return %next, %n, %m : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Of two ops that read each other's old value, one has to write elsewhere.

// CHECK-LABEL: module @crossed
// CHECK: %[[N:.*]] = stablehlo.tanh
// CHECK: %[[M:.*]] = stablehlo.exponential
// CHECK-NEXT: %[[C:.*]] = mhlo.copy %[[N]]
// CHECK-NOT: mhlo.copy
// CHECK: stablehlo.return %{{.*}}, %[[C]], %[[M]] :
module @crossed {
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
      %m = stablehlo.exponential %a : tensor<8x8xf32>
      stablehlo.return %next, %n, %m : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// So it is if the second reads it by way of another op.

// CHECK-LABEL: module @crossed_by_way
// CHECK: %[[N:.*]] = stablehlo.tanh
// CHECK: %[[M:.*]] = stablehlo.exponential
// CHECK: %[[C:.*]] = mhlo.copy %[[N]]
// CHECK-NOT: mhlo.copy
// CHECK: stablehlo.return %{{.*}}, %[[C]], %[[M]] :
module @crossed_by_way {
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
      %r = stablehlo.add %n, %b : tensor<8x8xf32>
      %m = stablehlo.exponential %a : tensor<8x8xf32>
      stablehlo.return %next, %n, %m : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// What updates the value itself is no new one.

// CHECK-LABEL: module @update
// CHECK-NOT: mhlo.copy
module @update {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %u = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n, %u : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// An update of something else leaves the new value there.

// CHECK-LABEL: module @updated_elsewhere
// CHECK: %[[N:.*]] = stablehlo.dynamic_update_slice
// CHECK-NEXT: mhlo.copy %[[N]]
// CHECK-NOT: mhlo.copy
module @updated_elsewhere {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %u = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.dot_general %a, %u, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %n = stablehlo.dynamic_update_slice %d, %u, %i, %i : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n, %u : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A branch reads what it captures until it ends.

// CHECK-LABEL: module @branch
// CHECK: %[[N:.*]] = "stablehlo.if"
// CHECK: mhlo.copy %[[N]]
// CHECK-NOT: mhlo.copy
module @branch {
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
      %p = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %n = "stablehlo.if"(%p) ({
        %t = stablehlo.tanh %a : tensor<8x8xf32>
        stablehlo.return %t : tensor<8x8xf32>
      }, {
        stablehlo.return %a : tensor<8x8xf32>
      }) : (tensor<i1>) -> tensor<8x8xf32>
      stablehlo.return %next, %n : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// A loop inside changes the value in its place.

// CHECK-LABEL: module @inner
// CHECK-NOT: mhlo.copy
module @inner {
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
      %n:2 = stablehlo.while(%j = %i, %b = %a) : tensor<i32>, tensor<8x8xf32>
      cond {
        %ten = stablehlo.constant dense<10> : tensor<i32>
        %c = stablehlo.compare LT, %j, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %k = stablehlo.add %j, %one : tensor<i32>
        %t = stablehlo.tanh %b : tensor<8x8xf32>
        stablehlo.return %k, %t : tensor<i32>, tensor<8x8xf32>
      }
      stablehlo.return %next, %n#1 : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// Nor does an op change this that reads the old value later: `copy-kept-values` lets the loop start from a copy.
/// What the loop inside leaves as it is stays, too.

// CHECK-LABEL: module @inner_read
// CHECK-NOT: mhlo.copy
module @inner_read {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>, %x2: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:4 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1, %g = %x2) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n:3 = stablehlo.while(%j = %zero, %e = %a, %f = %g) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
      cond {
        %ten = stablehlo.constant dense<10> : tensor<i32>
        %p = stablehlo.compare LT, %j, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %k = stablehlo.add %j, %one : tensor<i32>
        %t = stablehlo.add %e, %f : tensor<8x8xf32>
        stablehlo.return %k, %t, %f : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
      }
      %s = stablehlo.add %n#1, %a : tensor<8x8xf32>
      %u = stablehlo.add %s, %g : tensor<8x8xf32>
      stablehlo.return %next, %n#1, %u, %n#2 : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2, %0#3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// A product reads all elements also of a view.

// CHECK-LABEL: module @read_view
// CHECK: %[[N:.*]] = stablehlo.dot_general
// CHECK-NEXT: %[[V:.*]] = stablehlo.reshape %[[N]]
// CHECK-NEXT: mhlo.copy %[[V]]
// CHECK-NOT: mhlo.copy
module @read_view {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<4x4xf32>) -> tensor<8x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %w = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<4x4xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %v = stablehlo.reshape %a : (tensor<8x8xf32>) -> tensor<16x4xf32>
      %p = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
      %n = stablehlo.reshape %p : (tensor<16x4xf32>) -> tensor<8x8xf32>
      stablehlo.return %next, %n, %w : tensor<i32>, tensor<8x8xf32>, tensor<4x4xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// The second of two results updates a value in its place; the first needs an element for several.

// CHECK-LABEL: module @second
// CHECK: %[[N:.*]]:2 = "mhlo.fusion"
// CHECK: mhlo.copy %[[N]]#0
// CHECK-NOT: mhlo.copy
module @second {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x0, %u = %x1) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n:2 = "mhlo.fusion"(%a, %u, %i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%f: tensor<8x8xf32>, %g: tensor<8x8xf32>, %k: tensor<i32>):
        %e = stablehlo.exponential %g : tensor<8x8xf32>
        %d = stablehlo.dynamic_update_slice %f, %e, %k, %k : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
        mhlo.return %e, %d : tensor<8x8xf32>, tensor<8x8xf32>
      }) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
      stablehlo.return %next, %n#1, %n#0 : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// The first may also be written over its own argument.

// CHECK-LABEL: module @second_in_place
// CHECK-NOT: mhlo.copy
module @second_in_place {
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
      %n:2 = "mhlo.fusion"(%a, %b, %i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%f: tensor<8x8xf32>, %g: tensor<8x8xf32>, %k: tensor<i32>):
        %z = stablehlo.constant dense<1.0> : tensor<1x1xf32>
        %e = stablehlo.exponential %g : tensor<8x8xf32>
        %d = stablehlo.dynamic_update_slice %f, %z, %k, %k : (tensor<8x8xf32>, tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
        mhlo.return %e, %d : tensor<8x8xf32>, tensor<8x8xf32>
      }) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
      stablehlo.return %next, %n#1, %n#0 : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Of two reductions, only the first is made before the new value is written.

// CHECK-LABEL: module @reduced_twice
// CHECK: %[[N:.*]]:3 = "mhlo.fusion"
// CHECK: mhlo.copy %[[N]]#0
module @reduced_twice {
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
      %n:3 = "mhlo.fusion"(%a) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
      ^bb0(%f: tensor<8x8xf32>):
        %init = stablehlo.constant dense<0.0> : tensor<f32>
        %e = stablehlo.exponential %f : tensor<8x8xf32>
        %r = stablehlo.reduce(%f init: %init) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
        %q = stablehlo.reduce(%f init: %init) applies stablehlo.maximum across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
        mhlo.return %e, %r, %q : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>
      }) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
      stablehlo.return %next, %n#0 : tensor<i32>, tensor<8x8xf32>
    }
    return %0#1 : tensor<8x8xf32>
  }
}

// -----

/// A collective reads a copy of what kernels beside it read.

// CHECK-LABEL: module @beside
// CHECK: %[[C:.*]] = mhlo.copy %iterArg_0 :
// CHECK-NEXT: %[[N:.*]] = "stablehlo.collective_permute"(%[[C]])
// CHECK-NOT: mhlo.copy
// CHECK: stablehlo.return %{{.*}}, %[[N]], %{{.*}} :
module @beside attributes {mhlo.num_partitions = 2 : i32} {
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
      %n = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %a, %b : tensor<8x8xf32>
      stablehlo.return %next, %n, %s : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// If none do, its result is copied.

// CHECK-LABEL: module @alone
// CHECK: %[[N:.*]] = "stablehlo.collective_permute"(%iterArg_0)
// CHECK: mhlo.copy %[[N]]
module @alone attributes {mhlo.num_partitions = 2 : i32} {
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
      %n = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %n, %b : tensor<8x8xf32>
      stablehlo.return %next, %n, %s : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// So it is if it does not read the old value.

// CHECK-LABEL: module @unread
// CHECK: %[[N:.*]] = "stablehlo.collective_permute"
// CHECK: mhlo.copy %[[N]]
module @unread attributes {mhlo.num_partitions = 2 : i32} {
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
      %e = stablehlo.exponential %b : tensor<8x8xf32>
      %n = "stablehlo.collective_permute"(%e) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %n, %a : tensor<8x8xf32>
      %t = stablehlo.tanh %a : tensor<8x8xf32>
      %u = stablehlo.add %s, %t : tensor<8x8xf32>
      stablehlo.return %next, %n, %u : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// What is moved to the place of another operand of the collective follows that, before its own place is written over.

// CHECK-LABEL: module @kept_place
// CHECK: %[[C:.*]] = mhlo.copy %iterArg_0 :
// CHECK-NEXT: %[[N:.*]]:2 = "stablehlo.all_to_all"(%[[C]], %iterArg_1)
// CHECK: %[[M:.*]] = mhlo.copy %iterArg_2 :
// CHECK: %[[S:.*]] = stablehlo.tanh %iterArg_2
// CHECK: stablehlo.return %{{.*}}, %[[N]]#0, %[[M]], %{{.*}} :
module @kept_place attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>, %x2: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:4 = stablehlo.while(%i = %zero, %a = %x0, %b = %x1, %g = %x2) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %n:2 = "stablehlo.all_to_all"(%a, %b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, split_count = 2 : i64, split_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
      %t = stablehlo.tanh %g : tensor<8x8xf32>
      %s = stablehlo.add %t, %a : tensor<8x8xf32>
      stablehlo.return %next, %n#0, %g, %s : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    return %0#1, %0#2, %0#3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
