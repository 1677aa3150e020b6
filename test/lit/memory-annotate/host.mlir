// RUN: hespas-opt %s --memory-annotate --split-input-file | filecheck %s

/// Arguments and results in the memory of the host take none of the device, in every form that a loop gives them: of two
/// arguments of 4 KiB the device has one, and what it copies.

// CHECK: module @plain
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: live_bytes = 8192 : i64
module @plain {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32> {mhlo.memory_kind = "pinned_host"}) -> (tensor<32x32xf32> {mhlo.memory_kind = "device"}, tensor<32x32xf32> {mhlo.memory_kind = "pinned_host"}) {
    %0 = stablehlo.custom_call @MoveToDevice(%h) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.custom_call @MoveToHost(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %0, %1 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}

// -----

// CHECK: module @loop
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: live_bytes = 12292 : i64
module @loop {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32> {mhlo.memory_kind = "pinned_host"}) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %v = %x, %w = %h) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %b = stablehlo.optimization_barrier %w : tensor<32x32xf32>
      %d = stablehlo.custom_call @MoveToDevice(%b) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %s = stablehlo.add %v, %d : tensor<32x32xf32>
      stablehlo.return %j, %s, %b : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

/// What a copy reads or writes is on the host, though no argument says so, in every form that loops and barriers give it:
/// the device has the other argument, its copy that the loop carries, what is copied from the host, and a counter.

// CHECK: module @read
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: live_bytes = 12292 : i64
module @read {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %o = stablehlo.optimization_barrier %h : tensor<32x32xf32>
    %0:3 = stablehlo.while(%i = %zero, %v = %x, %w = %o) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.custom_call @MoveToDevice(%w) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %s = stablehlo.add %v, %d : tensor<32x32xf32>
      stablehlo.return %j, %s, %w : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @written
// CHECK-SAME: live_bytes = 4096 : i64
// CHECK-SAME: result_bytes = 0 : i64
module @written {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %h = stablehlo.custom_call @MoveToHost(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %o = stablehlo.optimization_barrier %h : tensor<32x32xf32>
    return %o : tensor<32x32xf32>
  }
}

// -----

/// An argument on the host stays there, though nothing copies it.

// CHECK: module @untouched
// CHECK-SAME: argument_bytes = 4096 : i64
module @untouched {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32> {mhlo.memory_kind = "unpinned_host"}) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// A copy of a slice writes into an array on the host, which is one buffer before and after it.

// CHECK: module @slice
// CHECK-SAME: argument_bytes = 132 : i64
// CHECK-SAME: live_bytes = 132 : i64
module @slice {
  func.func @main(%x: tensor<1x32xf32>, %h: tensor<32x32xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %0 = stablehlo.custom_call @MoveToHost(%h, %x, %i) : (tensor<32x32xf32>, tensor<1x32xf32>, tensor<i32>) -> tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// The value that tells may be what the loop starts from, what it ends with, or what its body hands on.

// CHECK: module @starts
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: live_bytes = 8192 : i64
module @starts {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32> {mhlo.memory_kind = "pinned_host"}) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %v = %x, %w = %h) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.custom_call @acme(%w) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %v, %t : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    %r = stablehlo.tanh %0#1 : tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @ends
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: live_bytes = 8192 : i64
module @ends {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %v = %x, %w = %h) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.custom_call @acme(%w) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %v, %t : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    %d = stablehlo.custom_call @MoveToDevice(%0#2) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %d : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @hands_on
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: live_bytes = 8192 : i64
module @hands_on {
  func.func @main(%x: tensor<32x32xf32>, %h: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %v = %x, %w = %h) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.custom_call @MoveToHost(%v) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %j, %v, %t : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    %r = stablehlo.tanh %0#1 : tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}
