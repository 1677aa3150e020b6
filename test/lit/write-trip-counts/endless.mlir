// RUN: hespas-opt %s --write-trip-counts 2>&1 | filecheck %s

/// A loop whose condition always holds is not run for long; one that wraps around, or that ends late, is.

// CHECK-LABEL: func.func private @or_true
// CHECK: hespas.trips = 1 : i64
func.func private @or_true(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %z = stablehlo.compare LT, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %y = stablehlo.or %z, %t : tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @away
// CHECK: hespas.trips = 1 : i64
func.func private @away(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %y = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @apart
// CHECK: hespas.trips = 1 : i64
func.func private @apart(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %k = stablehlo.add %i, %i : tensor<i32>
    %y = stablehlo.compare NE, %k, %cm : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @kept_flag
// CHECK: hespas.trips = 1 : i64
func.func private @kept_flag(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %r, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @round
// CHECK: hespas.trips = 1 : i64
func.func private @round(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %y = stablehlo.compare LT, %i, %c99 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %m, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @wraps
// CHECK: hespas.trips = 128 : i64
func.func private @wraps(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i8>
  %c1 = stablehlo.constant dense<1> : tensor<i8>
  %cm = stablehlo.constant dense<-1> : tensor<i8>
  %c8 = stablehlo.constant dense<8> : tensor<i8>
  %c98 = stablehlo.constant dense<98> : tensor<i8>
  %c99 = stablehlo.constant dense<99> : tensor<i8>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i8>, tensor<i1>, tensor<8xf32> cond {
    %y = stablehlo.compare GE, %i, %c0 : (tensor<i8>, tensor<i8>) -> tensor<i1>
    %k = stablehlo.and %y, %q : tensor<i1>
    stablehlo.return %k : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i8>
    %m = stablehlo.remainder %j, %c8 : tensor<i8>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i8>, tensor<i8>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i8>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i8>, tensor<i8>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i8>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @late
// CHECK: hespas.trips = 98 : i64
func.func private @late(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %n = stablehlo.remainder %i, %c99 : tensor<i32>
    %y = stablehlo.compare NE, %n, %c98 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @falls
// CHECK: hespas.trips = 91 : i64
func.func private @falls(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %s, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @negated
// CHECK: hespas.trips = 98 : i64
func.func private @negated(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %z = stablehlo.compare EQ, %i, %c98 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %y = stablehlo.not %z : tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @square
// CHECK: hespas.trips = 99 : i64
func.func private @square(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %cm = stablehlo.constant dense<-1> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c98 = stablehlo.constant dense<98> : tensor<i32>
  %c99 = stablehlo.constant dense<99> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c0, %q = %t, %a = %x) : tensor<i32>, tensor<i1>, tensor<8xf32> cond {
    %k = stablehlo.multiply %i, %i : tensor<i32>
    %n = stablehlo.subtract %k, %c98 : tensor<i32>
    %z = stablehlo.multiply %c98, %c98 : tensor<i32>
    %y = stablehlo.compare LT, %n, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %y : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m = stablehlo.remainder %j, %c8 : tensor<i32>
    %p = stablehlo.compare GE, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %p, %q : tensor<i1>
    %u = stablehlo.subtract %c99, %j : tensor<i32>
    %v = stablehlo.compare GT, %u, %c8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.and %v, %q : tensor<i1>
    %b = stablehlo.add %a, %a : tensor<8xf32>
    stablehlo.return %j, %q, %b : tensor<i32>, tensor<i1>, tensor<8xf32>
  }
  return %0#2 : tensor<8xf32>
}

func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @or_true(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @away(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @apart(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @kept_flag(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = call @round(%3) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = call @wraps(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = call @late(%5) : (tensor<8xf32>) -> tensor<8xf32>
  %7 = call @falls(%6) : (tensor<8xf32>) -> tensor<8xf32>
  %8 = call @negated(%7) : (tensor<8xf32>) -> tensor<8xf32>
  %9 = call @square(%8) : (tensor<8xf32>) -> tensor<8xf32>
  return %9 : tensor<8xf32>
}
