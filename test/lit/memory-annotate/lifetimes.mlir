// RUN: hespas-opt %s --memory-annotate=model-fusion=false --split-input-file | filecheck %s

/// When values are live. XLA:CPU plans as much for each program of one device that reads all its values, and up to
/// 192 bytes more.

/// Two arguments of 4 KiB, and products of 4 KiB. What nobody reads, here 8 KiB, is gone as soon as it is made.

// CHECK: module @unused
// CHECK-SAME: live_bytes = 20480 : i64
// CHECK-SAME: timeline_bytes = array<i64: 12288, 20480, 16384, 12288>
module @unused {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %a = stablehlo.dot %y, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.concatenate %x, %y, dim = 0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %b = stablehlo.dot %a, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %b : tensor<32x32xf32>
  }
}

// -----

/// A loop takes the buffer of a value that nobody else reads: the product in the body is the only one beside it.

// CHECK: module @taken
// CHECK-SAME: live_bytes = 16388 : i64
module @taken {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %0:2 = stablehlo.while(%i = %zero, %v0 = %t) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<1000> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %p = stablehlo.dot %v0, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %p : tensor<i32>, tensor<32x32xf32>
    }
    %r = stablehlo.dot %0#1, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}

// -----

/// It takes a copy of a value that is read after the loop or by its body.

// CHECK: module @read_later
// CHECK-SAME: live_bytes = 20484 : i64
module @read_later {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %0:2 = stablehlo.while(%i = %zero, %v0 = %t) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<1000> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %p = stablehlo.dot %v0, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %p : tensor<i32>, tensor<32x32xf32>
    }
    %r = stablehlo.dot %0#1, %t : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @read_inside
// CHECK-SAME: live_bytes = 20484 : i64
module @read_inside {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %0:2 = stablehlo.while(%i = %zero, %v0 = %t) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<1000> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %p = stablehlo.dot %v0, %t : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %p : tensor<i32>, tensor<32x32xf32>
    }
    %r = stablehlo.dot %0#1, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}

// -----

/// What only the body reads is live in the whole loop, and not after it, where three products are.

// CHECK: module @captured
// CHECK-SAME: live_bytes = 20484 : i64
module @captured {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %u = stablehlo.dot %y, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %0:2 = stablehlo.while(%i = %zero, %v0 = %u) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<1000> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %p = stablehlo.dot %v0, %t : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %p : tensor<i32>, tensor<32x32xf32>
    }
    %a = stablehlo.dot %0#1, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %b = stablehlo.dot %0#1, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %c = stablehlo.dot %a, %b : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %c : tensor<32x32xf32>
  }
}

// -----

/// So is what only an alternative reads, and what it returns is a value that ends with its last reader.

// CHECK: module @chosen
// CHECK-SAME: live_bytes = 20481 : i64
module @chosen {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %q: tensor<i1>) -> tensor<32x32xf32> {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %0 = "stablehlo.if"(%q) ({
      %g = stablehlo.dot %t, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %g : tensor<32x32xf32>
    }, {
      stablehlo.return %x : tensor<32x32xf32>
    }) : (tensor<i1>) -> tensor<32x32xf32>
    %a = stablehlo.dot %0, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %b = stablehlo.dot %0, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %c = stablehlo.dot %a, %b : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %d = stablehlo.dot %c, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %d : tensor<32x32xf32>
  }
}

// -----

/// A value that the body hands on, also through a barrier or a view, has one buffer.

// CHECK: module @forwarded
// CHECK-SAME: live_bytes = 16388 : i64
module @forwarded {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %v0 = %x, %v1 = %y) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<1000> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %p = stablehlo.dot %v0, %v1 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %o = stablehlo.optimization_barrier %v1 : tensor<32x32xf32>
      %f = stablehlo.reshape %o : (tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %p, %f : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    %r = stablehlo.dot %0#1, %0#2 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}

// -----

/// An elementwise result of another size has a buffer of its own.

// CHECK: module @narrowed
// CHECK-SAME: live_bytes = 14336 : i64
module @narrowed {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xbf16> {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %c = stablehlo.convert %t : (tensor<32x32xf32>) -> tensor<32x32xbf16>
    return %c : tensor<32x32xbf16>
  }
}

// -----

/// An asynchronous collective reads its operand until its wait: a product of 4 KiB, beside its result of 8.

// CHECK: module @in_flight
// CHECK-SAME: live_bytes = 24576 : i64
module @in_flight attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @gather(%x: tensor<32x32xf32>) -> tensor<64x32xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<32x32xf32>) -> tensor<64x32xf32>
    return %0 : tensor<64x32xf32>
  }
  func.func public @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<64x32xf32>, tensor<32x32xf32>) {
    %t = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %s = "mhlo.async_start"(%t) <{called_computation = @gather, execution_thread = "main"}> : (tensor<32x32xf32>) -> !mhlo.async_bundle<tensor<32x32xf32>, tensor<64x32xf32>>
    %u = stablehlo.dot %y, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %d = "mhlo.async_done"(%s) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<32x32xf32>, tensor<64x32xf32>>) -> tensor<64x32xf32>
    return %d, %u : tensor<64x32xf32>, tensor<32x32xf32>
  }
}
