// RUN: hespas-opt %s --memory-annotate --split-input-file | filecheck %s

/// The kernels that a compiler would make of a program without fusions.

/// What two kernels read is computed in each where that moves fewer bytes: a function of one value, which needs no memory
/// and is no point of the program,

// CHECK: module @cheap
// CHECK-SAME: points = 4 : i64
module @cheap {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %r = stablehlo.reduce(%u init: %c) applies stablehlo.add across dimensions = [0] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %s = stablehlo.reduce(%u init: %c) applies stablehlo.add across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %r, %s : tensor<32xf32>, tensor<32xf32>
  }
}

// -----

/// but not a comparison, which reads eight times what it makes,

// CHECK: module @dear
// CHECK-SAME: points = 5 : i64
module @dear {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32xi1>, tensor<32xi1>) {
    %f = stablehlo.constant dense<false> : tensor<i1>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %p = stablehlo.compare GT, %t, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xi1>
    %r = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [0] : (tensor<32x32xi1>, tensor<i1>) -> tensor<32xi1>
    %s = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [1] : (tensor<32x32xi1>, tensor<i1>) -> tensor<32xi1>
    return %r, %s : tensor<32xi1>, tensor<32xi1>
  }
}

// -----

/// except of values that are only repeated.

// CHECK: module @repeated
// CHECK-SAME: points = 3 : i64
module @repeated {
  func.func @main(%v: tensor<32xf32>, %w: tensor<32xf32>) -> (tensor<32xi1>, tensor<32xi1>) {
    %f = stablehlo.constant dense<false> : tensor<i1>
    %t = stablehlo.broadcast_in_dim %v, dims = [0] : (tensor<32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<32xf32>) -> tensor<32x32xf32>
    %p = stablehlo.compare GT, %t, %u : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xi1>
    %r = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [0] : (tensor<32x32xi1>, tensor<i1>) -> tensor<32xi1>
    %s = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [1] : (tensor<32x32xi1>, tensor<i1>) -> tensor<32xi1>
    return %r, %s : tensor<32xi1>, tensor<32xi1>
  }
}

// -----

/// A selection of rows is computed where it is read, in every form of it.

// CHECK: module @selected
// CHECK-SAME: points = 2 : i64
module @selected {
  func.func @main(%x: tensor<64x32xf32>, %n: tensor<32xi32>) -> tensor<32xf32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %t = "stablehlo.torch_index_select"(%x, %n) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<64x32xf32>, tensor<32xi32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %r = stablehlo.reduce(%u init: %c) applies stablehlo.add across dimensions = [0] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %r : tensor<32xf32>
  }
}

// -----

/// What is returned, or read by a kernel that fuses nothing, has a buffer, though another kernel could compute it.

// CHECK: module @returned
// CHECK-SAME: points = 4 : i64
module @returned {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %r = stablehlo.reduce(%u init: %c) applies stablehlo.add across dimensions = [0] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %u, %r : tensor<32x32xf32>, tensor<32xf32>
  }
}

// -----

// CHECK: module @partly
// CHECK-SAME: points = 5 : i64
module @partly {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32xf32>, tensor<32x32xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %r = stablehlo.reduce(%u init: %c) applies stablehlo.add across dimensions = [0] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    %d = stablehlo.dot %u, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %r, %d : tensor<32xf32>, tensor<32x32xf32>
  }
}

// -----

/// A kernel reads what the ops in it read: the first product is live beside the next two.

// CHECK: module @operands
// CHECK-SAME: live_bytes = 20480 : i64
module @operands {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32xf32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %a = stablehlo.dot %y, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %b = stablehlo.dot %a, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %d = stablehlo.subtract %u, %b : tensor<32x32xf32>
    %r = stablehlo.reduce(%d init: %c) applies stablehlo.add across dimensions = [0] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %r : tensor<32xf32>
  }
}

// -----

/// It may be written over an operand, if all that depends on it is elementwise, or if its last op updates it

// CHECK: module @over
// CHECK-SAME: live_bytes = 12288 : i64
module @over {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %v = stablehlo.negate %u : tensor<32x32xf32>
    return %v : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @moved
// CHECK-SAME: live_bytes = 16384 : i64
module @moved {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %v = stablehlo.tanh %u : tensor<32x32xf32>
    return %v : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @updated
// CHECK-SAME: live_bytes = 12292 : i64
module @updated {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %x : tensor<32x32xf32>
    %v = stablehlo.dynamic_update_slice %t, %u, %i, %i : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
    return %v : tensor<32x32xf32>
  }
}

// -----

/// by something else.

// CHECK: module @updated_by_itself
// CHECK-SAME: live_bytes = 16388 : i64
module @updated_by_itself {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.tanh %t : tensor<32x32xf32>
    %v = stablehlo.dynamic_update_slice %t, %u, %i, %i : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
    return %v : tensor<32x32xf32>
  }
}

// -----

/// Kernels in the body of a loop are fused, too: of two functions one is a point.

// CHECK: module @in_loop
// CHECK-SAME: points = 6 : i64
module @in_loop {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<9> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<32x32xf32>
      %s = stablehlo.negate %t : tensor<32x32xf32>
      stablehlo.return %j, %s : tensor<i32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

/// A kernel writes its result over a product that it reads once, though a fused op reads what is made of it twice.

// CHECK: module @twice_inside
// CHECK-SAME: timeline_bytes = array<i64: 8192, 8192, 12288, 8192>
module @twice_inside {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.tanh %0 : tensor<32x32xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<32x32xf32>
    %3 = stablehlo.dot %2, %2 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %3 : tensor<32x32xf32>
  }
}
