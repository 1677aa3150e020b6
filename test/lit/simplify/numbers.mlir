// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// A conversion to a type that has all numbers of the first one, and on to a third, is one conversion.

// CHECK-LABEL: module @through
module @through {
  // CHECK: func.func @main(%[[I:.*]]: tensor<8xi8>, %[[F:.*]]: tensor<8xbf16>, %[[U:.*]]: tensor<8xui8>)
  // CHECK-NEXT: stablehlo.convert %[[I]] : (tensor<8xi8>) -> tensor<8xf32>
  // CHECK-NEXT: stablehlo.convert %[[U]] : (tensor<8xui8>) -> tensor<8xf32>
  // CHECK-NEXT: return %{{.*}}, %[[F]], %{{.*}} :
  func.func @main(%i: tensor<8xi8>, %f: tensor<8xbf16>, %u: tensor<8xui8>) -> (tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>) {
    %0 = stablehlo.convert %i : (tensor<8xi8>) -> tensor<8xi32>
    %1 = stablehlo.convert %0 : (tensor<8xi32>) -> tensor<8xf32>
    %2 = stablehlo.convert %f : (tensor<8xbf16>) -> tensor<8xf32>
    %3 = stablehlo.convert %2 : (tensor<8xf32>) -> tensor<8xbf16>
    %4 = stablehlo.convert %u : (tensor<8xui8>) -> tensor<8xui32>
    %5 = stablehlo.convert %4 : (tensor<8xui32>) -> tensor<8xf32>
    return %1, %3, %5 : tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>
  }
}

// -----

/// It is two where the type between has not all of them: too few bits in the exponent or the mantissa,
/// no sign, truth values, or numbers of the other kind.

// CHECK-LABEL: module @between
module @between {
  // CHECK-COUNT-12: stablehlo.convert
  // CHECK-NOT: stablehlo.convert
  func.func @main(%b: tensor<8xbf16>, %h: tensor<8xf16>, %i: tensor<8xi8>, %p: tensor<8xi1>, %w: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) {
    %0 = stablehlo.convert %b : (tensor<8xbf16>) -> tensor<8xf16>
    %1 = stablehlo.convert %0 : (tensor<8xf16>) -> tensor<8xf32>
    %2 = stablehlo.convert %h : (tensor<8xf16>) -> tensor<8xbf16>
    %3 = stablehlo.convert %2 : (tensor<8xbf16>) -> tensor<8xf32>
    %4 = stablehlo.convert %i : (tensor<8xi8>) -> tensor<8xui32>
    %5 = stablehlo.convert %4 : (tensor<8xui32>) -> tensor<8xi64>
    %6 = stablehlo.convert %p : (tensor<8xi1>) -> tensor<8xi32>
    %7 = stablehlo.convert %6 : (tensor<8xi32>) -> tensor<8xi64>
    %8 = stablehlo.convert %w : (tensor<8xi32>) -> tensor<8xf32>
    %9 = stablehlo.convert %8 : (tensor<8xf32>) -> tensor<8xi64>
    %10 = stablehlo.convert %w : (tensor<8xi32>) -> tensor<8xi16>
    %11 = stablehlo.convert %10 : (tensor<8xi16>) -> tensor<8xi64>
    return %1, %3, %5, %7, %9, %11 : tensor<8xf32>, tensor<8xf32>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>
  }
}

// -----

/// A precision of fewer bits in the exponent, or in the mantissa, changes the value; one of as many does
/// not. What the bits of other types are is not known.

// CHECK-LABEL: module @precision
module @precision {
  // CHECK: stablehlo.reduce_precision %arg0, format = e5m23
  // CHECK-NEXT: stablehlo.reduce_precision %arg0, format = e8m10
  // CHECK-NEXT: stablehlo.reduce_precision %arg1, format = e8m23
  // CHECK-NEXT: return %{{.*}}, %{{.*}}, %{{.*}}, %arg2
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf8E3M4>, %z: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf8E3M4>, tensor<8xbf16>) {
    %0 = stablehlo.reduce_precision %x, format = e5m23 : tensor<8xf32>
    %1 = stablehlo.reduce_precision %x, format = e8m10 : tensor<8xf32>
    %2 = stablehlo.reduce_precision %y, format = e8m23 : tensor<8xf8E3M4>
    %3 = stablehlo.reduce_precision %z, format = e8m7 : tensor<8xbf16>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf8E3M4>, tensor<8xbf16>
  }
}

// -----

/// Neutral numbers may be a constant or its broadcast, of numbers or of integers, on either side of a
/// product.

// CHECK-LABEL: module @neutral
module @neutral {
  // CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>, %[[I:.*]]: tensor<8xi32>)
  // CHECK-NEXT: return %[[X]], %[[X]], %[[I]], %[[I]]
  func.func @main(%x: tensor<8xf32>, %i: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xi32>, tensor<8xi32>) {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %n = stablehlo.constant dense<1> : tensor<8xi32>
    %z = stablehlo.constant dense<0> : tensor<8xi32>
    %0 = stablehlo.multiply %x, %ones : tensor<8xf32>
    %1 = stablehlo.divide %x, %ones : tensor<8xf32>
    %2 = stablehlo.multiply %n, %i : tensor<8xi32>
    %3 = stablehlo.subtract %i, %z : tensor<8xi32>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xi32>, tensor<8xi32>
  }
}

// -----

/// Other numbers are not neutral: those that differ among the elements, another one, a value that is not
/// known, and a complex one, which is not read.

// CHECK-LABEL: module @not_neutral
module @not_neutral {
  // CHECK-COUNT-2: stablehlo.multiply
  // CHECK-NEXT: stablehlo.divide
  // CHECK-NEXT: stablehlo.subtract
  // CHECK: stablehlo.multiply
  // CHECK-NEXT: stablehlo.multiply
  // CHECK-NEXT: stablehlo.subtract
  func.func @main(%x: tensor<2xf32>, %y: tensor<f32>, %c: tensor<2xcomplex<f32>>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>) {
    %several = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %two = stablehlo.constant dense<2.0> : tensor<2xf32>
    %one = stablehlo.constant dense<(1.0, 0.0)> : tensor<2xcomplex<f32>>
    %t = stablehlo.tanh %y : tensor<f32>
    %b = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
    %0 = stablehlo.multiply %x, %several : tensor<2xf32>
    %1 = stablehlo.multiply %x, %two : tensor<2xf32>
    %2 = stablehlo.divide %x, %two : tensor<2xf32>
    %3 = stablehlo.subtract %x, %two : tensor<2xf32>
    %4 = stablehlo.multiply %x, %b : tensor<2xf32>
    %5 = stablehlo.multiply %c, %one : tensor<2xcomplex<f32>>
    %6 = stablehlo.subtract %zero, %x : tensor<2xf32>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>
  }
}

// -----

/// A reduction of dimensions of 1 is a reshape if it begins with what is neutral for its op.

// CHECK-LABEL: module @reductions
module @reductions {
  // CHECK: %[[R:.*]] = stablehlo.reshape %arg0 : (tensor<1x8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: return %[[R]], %[[R]], %[[R]], %[[R]]
  func.func @main(%x: tensor<1x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %high = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.reduce(%x init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.reduce(%x init: %high) applies stablehlo.minimum across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// It stays if it begins with another number, has another op or several, reduces more than one element,
/// or reduces two values.

// CHECK-LABEL: module @reductions_stay
module @reductions_stay {
  // CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [0]
  // CHECK-NEXT: stablehlo.reduce(%arg1 init: %{{.*}}) applies stablehlo.or
  // CHECK-NEXT: stablehlo.reduce(%arg0 init: %{{.*}}) across dimensions = [0]
  // CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  // CHECK-NEXT: stablehlo.reduce(%arg0 init: %{{.*}}), (%{{.*}} init:
  func.func @main(%x: tensor<1x8xf32>, %p: tensor<1x8xi32>) -> (tensor<8xf32>, tensor<8xi32>, tensor<8xf32>, tensor<1xf32>, tensor<8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %zeros = stablehlo.constant dense<0.0> : tensor<1x8xf32>
    %none = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.reduce(%p init: %none) applies stablehlo.or across dimensions = [0] : (tensor<1x8xi32>, tensor<i32>) -> tensor<8xi32>
    %2 = stablehlo.reduce(%x init: %zero) across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %6 = stablehlo.add %a, %b : tensor<f32>
      %7 = stablehlo.tanh %6 : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }
    %3 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1x8xf32>, tensor<f32>) -> tensor<1xf32>
    %4:2 = stablehlo.reduce(%x init: %zero), (%zeros init: %zero) across dimensions = [0] : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %8 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %8, %d : tensor<f32>, tensor<f32>
    }
    return %0, %1, %2, %3, %4#0 : tensor<8xf32>, tensor<8xi32>, tensor<8xf32>, tensor<1xf32>, tensor<8xf32>
  }
}

// -----

/// The general form of a product has its precision.

// CHECK-LABEL: module @dot
module @dot {
  // CHECK: stablehlo.dot_general %arg0, %arg1, contracting_dims = [0] x [0], precision = [HIGHEST, DEFAULT] : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
  func.func @main(%x: tensor<8xf32>, %w: tensor<8x4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.dot %x, %w, precision = [HIGHEST, DEFAULT] : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// A double has all numbers of a float; a type of 8 bits, which the table of types does not list, and an integer have not.

// CHECK-LABEL: module @doubles
module @doubles {
  // CHECK: func.func @main(%[[F:.*]]: tensor<8xf32>)
  // CHECK-NEXT: %[[A:.*]] = stablehlo.convert %[[F]] : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.convert %[[A]] : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
  // CHECK-NEXT: %[[I:.*]] = stablehlo.convert %[[F]] : (tensor<8xf32>) -> tensor<8xi64>
  // CHECK-NEXT: %[[J:.*]] = stablehlo.convert %[[I]] : (tensor<8xi64>) -> tensor<8xf32>
  // CHECK-NEXT: return %[[F]], %[[B]], %[[J]] :
  func.func @main(%f: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.convert %f : (tensor<8xf32>) -> tensor<8xf64>
    %1 = stablehlo.convert %0 : (tensor<8xf64>) -> tensor<8xf32>
    %2 = stablehlo.convert %f : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
    %3 = stablehlo.convert %2 : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
    %4 = stablehlo.convert %f : (tensor<8xf32>) -> tensor<8xi64>
    %5 = stablehlo.convert %4 : (tensor<8xi64>) -> tensor<8xf32>
    return %1, %3, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// Ops of constants are computed, and what they decide is chosen: the divisor of a variance is a
/// constant.

// CHECK-LABEL: module @divisor
module @divisor {
  // CHECK-NOT: stablehlo.subtract
  // CHECK-NOT: stablehlo.select
  // CHECK: stablehlo.constant dense<4.096000e+03> : tensor<f32>
  // CHECK: %[[Q:.*]] = stablehlo.divide %arg0
  // CHECK: return %[[Q]]
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %ddof = stablehlo.constant dense<0> : tensor<i32>
    %length = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %0 = stablehlo.convert %ddof : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.subtract %length, %0 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.divide %x, %2 : tensor<8xf32>
    %4 = stablehlo.compare GT, %1, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.broadcast_in_dim %nan, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %6 = stablehlo.select %4, %3, %5 : tensor<i1>, tensor<8xf32>
    return %6 : tensor<8xf32>
  }
}

// -----

/// Results are rounded to the type, as those of devices: the gradient of a mean is a constant, so is the
/// root by which attention divides, and integers are divided towards zero.

// CHECK-LABEL: module @rounded
module @rounded {
  // CHECK-DAG: %[[M:.*]] = stablehlo.constant dense<2.980230e-08> : tensor<8xbf16>
  // CHECK-DAG: %[[T:.*]] = stablehlo.constant dense<0.830000042> : tensor<f32>
  // CHECK-DAG: %[[R:.*]] = stablehlo.constant dense<11.3137083> : tensor<f32>
  // CHECK-DAG: %[[E:.*]] = stablehlo.constant dense<1.64872122> : tensor<f32>
  // CHECK-DAG: %[[Q:.*]] = stablehlo.constant dense<-3> : tensor<i32>
  // CHECK: return %[[M]], %[[T]], %[[R]], %[[E]], %[[Q]] :
  func.func @main() -> (tensor<8xbf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>) {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %count = stablehlo.constant dense<0x4C000000> : tensor<f32>
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %third = stablehlo.constant dense<0.33> : tensor<f32>
    %width = stablehlo.constant dense<128.0> : tensor<f32>
    %seven = stablehlo.constant dense<-7> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.divide %one, %count : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.convert %1 : (tensor<8xf32>) -> tensor<8xbf16>
    %3 = stablehlo.add %half, %third : tensor<f32>
    %4 = stablehlo.sqrt %width : tensor<f32>
    %5 = stablehlo.exponential %half : tensor<f32>
    %6 = stablehlo.divide %seven, %two : tensor<i32>
    return %2, %3, %4, %5, %6 : tensor<8xbf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>
  }
}

// -----

/// What a device may compute in another way is left to it: what is not finite or nearly so, negative zeros,
/// what is not defined, integers that do not fit or have no sign, and types of 8 bits.

// CHECK-LABEL: module @not_computed
module @not_computed {
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.sqrt
  // CHECK: stablehlo.divide
  // CHECK: stablehlo.add
  // CHECK: stablehlo.add
  // CHECK: stablehlo.add
  // CHECK: stablehlo.log
  func.func @main() -> (tensor<f16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i8>, tensor<ui8>, tensor<f8E4M3FN>, tensor<f32>) {
    %large = stablehlo.constant dense<300.0> : tensor<f16>
    %small = stablehlo.constant dense<1.0e-20> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %minus = stablehlo.constant dense<-2.0> : tensor<f32>
    %byte = stablehlo.constant dense<100> : tensor<i8>
    %unsigned = stablehlo.constant dense<100> : tensor<ui8>
    %narrow = stablehlo.constant dense<1.5> : tensor<f8E4M3FN>
    %0 = stablehlo.multiply %large, %large : tensor<f16>
    %1 = stablehlo.multiply %small, %small : tensor<f32>
    %2 = stablehlo.multiply %zero, %minus : tensor<f32>
    %3 = stablehlo.sqrt %minus : tensor<f32>
    %4 = stablehlo.divide %minus, %zero : tensor<f32>
    %5 = stablehlo.add %byte, %byte : tensor<i8>
    %6 = stablehlo.add %unsigned, %unsigned : tensor<ui8>
    %7 = stablehlo.add %narrow, %narrow : tensor<f8E4M3FN>
    %8 = stablehlo.log %zero : tensor<f32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<f16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i8>, tensor<ui8>, tensor<f8E4M3FN>, tensor<f32>
  }
}

// -----

/// A reduction of dimensions of size 1 is no reshape if its function has no neutral element here, and starts
/// from a number that is not known.

// CHECK-LABEL: module @no_neutral
module @no_neutral {
  // CHECK: stablehlo.reduce
  func.func @main(%x: tensor<8x1xi1>, %s: tensor<i1>) -> tensor<8xi1> {
    %0 = stablehlo.reduce(%x init: %s) applies stablehlo.xor across dimensions = [1] : (tensor<8x1xi1>, tensor<i1>) -> tensor<8xi1>
    return %0 : tensor<8xi1>
  }
}

// -----

/// The numbers of a small resource are those of a constant.

// CHECK-LABEL: module @resource
module @resource {
  // CHECK-NOT: stablehlo.multiply
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.constant dense_resource<ones> : tensor<2xf32>
    %1 = stablehlo.multiply %x, %0 : tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      ones: "0x040000000000803F0000803F"
    }
  }
#-}

// -----

/// A constant is converted if the device computes the same number: not half of one, nor infinity.

// CHECK-LABEL: module @converted
module @converted {
  // CHECK-DAG: %[[Z:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<4xbf16>
  // CHECK-DAG: %[[T:.*]] = stablehlo.constant dense<3> : tensor<4xi32>
  // CHECK-DAG: %[[H:.*]] = stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xi32>
  // CHECK-DAG: %[[I:.*]] = stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK: return %[[Z]], %[[T]], %[[H]], %[[I]]
  func.func @main() -> (tensor<4xbf16>, tensor<4xi32>, tensor<4xi32>, tensor<4xbf16>) {
    %zero = stablehlo.constant dense<-0.0> : tensor<4xf32>
    %three = stablehlo.constant dense<3.0> : tensor<4xf32>
    %half = stablehlo.constant dense<0.5> : tensor<4xf32>
    %infinity = stablehlo.constant dense<0x7F800000> : tensor<4xf32>
    %0 = stablehlo.convert %zero : (tensor<4xf32>) -> tensor<4xbf16>
    %1 = stablehlo.convert %three : (tensor<4xf32>) -> tensor<4xi32>
    %2 = stablehlo.convert %half : (tensor<4xf32>) -> tensor<4xi32>
    %3 = stablehlo.convert %infinity : (tensor<4xf32>) -> tensor<4xbf16>
    return %0, %1, %2, %3 : tensor<4xbf16>, tensor<4xi32>, tensor<4xi32>, tensor<4xbf16>
  }
}

// -----

/// A constant selects one of two values; data selects from constants as from others.

// CHECK-LABEL: module @selected
module @selected {
  // CHECK: %[[S:.*]] = stablehlo.select %arg2, %arg0, %{{.*}} :
  // CHECK: return %arg0, %arg1, %[[S]] :
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %p: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %true = stablehlo.constant dense<true> : tensor<4xi1>
    %false = stablehlo.constant dense<false> : tensor<4xi1>
    %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
    %0 = stablehlo.select %true, %x, %y : tensor<4xi1>, tensor<4xf32>
    %1 = stablehlo.select %false, %x, %y : tensor<4xi1>, tensor<4xf32>
    %2 = stablehlo.select %p, %x, %zeros : tensor<4xi1>, tensor<4xf32>
    return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

/// Numbers of 4 bits are read where all are equal; MLIR's bindings index no others.

// CHECK-LABEL: module @narrow
// CHECK: func.func @main(%[[X:.*]]: tensor<8xi4>)
// CHECK: %[[Y:.*]] = stablehlo.multiply %[[X]], %{{.*}} : tensor<8xi4>
// CHECK-NEXT: return %[[X]], %[[Y]]
module @narrow {
  func.func @main(%x: tensor<8xi4>) -> (tensor<8xi4>, tensor<8xi4>) {
    %one = stablehlo.constant dense<1> : tensor<8xi4>
    %c = stablehlo.constant dense<[1, 2, 3, -4, 5, 6, 7, -8]> : tensor<8xi4>
    %0 = stablehlo.multiply %x, %one : tensor<8xi4>
    %1 = stablehlo.multiply %x, %c : tensor<8xi4>
    return %0, %1 : tensor<8xi4>, tensor<8xi4>
  }
}

// -----

/// A truth value that differs from false, or equals true, is itself; the loops of vmap compare so.

// CHECK-LABEL: module @truth_values
module @truth_values {
  // CHECK: %[[N:.*]] = stablehlo.compare NE, %arg0
  // CHECK: %[[E:.*]] = stablehlo.compare EQ, %arg0
  // CHECK: %[[I:.*]] = stablehlo.compare NE, %arg1
  // CHECK: %[[L:.*]] = stablehlo.compare NE, {{.*}}, %arg0
  // CHECK: return %arg0, %arg0, %[[N]], %[[E]], %[[I]], %[[L]]
  func.func @main(%p: tensor<8xi1>, %x: tensor<8xi32>) -> (tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>) {
    %true = stablehlo.constant dense<true> : tensor<8xi1>
    %false = stablehlo.constant dense<false> : tensor<8xi1>
    %zero = stablehlo.constant dense<0> : tensor<8xi32>
    %0 = stablehlo.compare NE, %p, %false : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %1 = stablehlo.compare EQ, %p, %true : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %2 = stablehlo.compare NE, %p, %true : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %3 = stablehlo.compare EQ, %p, %false : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %4 = stablehlo.compare NE, %x, %zero : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %5 = stablehlo.compare NE, %false, %p : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    return %0, %1, %2, %3, %4, %5 : tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>
  }
}

// -----

/// A sum of negative elements is negated afterwards; a product of them, their maximum, and a sum with another start stay.

// CHECK-LABEL: module @negative_sums
module @negative_sums {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK: %[[R:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [0]
  // CHECK: %[[S:.*]] = stablehlo.negate %[[R]]
  // CHECK: %[[P:.*]] = stablehlo.reduce(%[[N]] init: %{{.*}}) applies stablehlo.multiply
  // CHECK: %[[M:.*]] = stablehlo.reduce(%[[N]] init: %{{.*}}) applies stablehlo.maximum
  // CHECK: %[[T:.*]] = stablehlo.reduce(%[[N]] init: %{{.*}}) applies stablehlo.add
  // CHECK: return %[[S]], %[[P]], %[[M]], %[[T]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %n = stablehlo.negate %x : tensor<4x8xf32>
    %0 = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.reduce(%n init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.reduce(%n init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.reduce(%n init: %one) applies stablehlo.add across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
