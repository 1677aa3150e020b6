// RUN: hespas-opt %s --fuse-epilogues --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-epilogues --fuse-epilogues --split-input-file | filecheck %s

/// The tanh form of GELU belongs to the product, and not what follows.

// CHECK-LABEL: module @gelu
module @gelu {
  // CHECK: "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.power
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.add
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.add
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.multiply
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.sine
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
    %8 = stablehlo.sine %7 : tensor<64x256xf32>
    return %8 : tensor<64x256xf32>
  }
}

// -----

/// The form is known by its values, however it is written, and may follow an addition.

// CHECK-LABEL: module @cubes
module @cubes {
  // CHECK: %[[F:.*]] = "mhlo.fusion"({{.*}} kOutput
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %m: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %e = stablehlo.add %d, %m : tensor<64x256xf32>
    %q = stablehlo.multiply %e, %e : tensor<64x256xf32>
    %0 = stablehlo.multiply %q, %e : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %e, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %n = stablehlo.negate %4 : tensor<64x256xf32>
    %5 = stablehlo.subtract %one, %n : tensor<64x256xf32>
    %h = stablehlo.multiply %e, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %h, %5 : tensor<64x256xf32>
    return %7 : tensor<64x256xf32>
  }
}

// -----

/// Another function with a tanh, one with two, and one without are no GELU.

// CHECK-LABEL: module @other_scale
module @other_scale {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<1.5> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
    return %7 : tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @two_tanhs
module @two_tanhs {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
    %8 = stablehlo.tanh %7 : tensor<64x256xf32>
    return %8 : tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @square
module @square {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.multiply %d, %d : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

// -----

/// Nothing but its last op may be read elsewhere, nor the product.

// CHECK-LABEL: module @inner_read
module @inner_read {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
    return %7, %5 : tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @product_read
module @product_read {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
    %8 = stablehlo.cosine %d : tensor<64x256xf32>
    return %7, %8 : tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

/// Where a step has no value at a point, as the root of a negative number, there is no match.

// CHECK-LABEL: module @undefined
module @undefined {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %u = stablehlo.power %d, %half : tensor<64x256xf32>
    %v = stablehlo.divide %d, %zero : tensor<64x256xf32>
    %t = stablehlo.tanh %u : tensor<64x256xf32>
    %x = stablehlo.add %t, %v : tensor<64x256xf32>
    return %x : tensor<64x256xf32>
  }
}

// -----

/// A chain of more than 24 ops is not followed to its end.

// CHECK-LABEL: module @long
module @long {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %n0 = stablehlo.negate %d : tensor<64x256xf32>
    %n1 = stablehlo.negate %n0 : tensor<64x256xf32>
    %n2 = stablehlo.negate %n1 : tensor<64x256xf32>
    %n3 = stablehlo.negate %n2 : tensor<64x256xf32>
    %n4 = stablehlo.negate %n3 : tensor<64x256xf32>
    %n5 = stablehlo.negate %n4 : tensor<64x256xf32>
    %n6 = stablehlo.negate %n5 : tensor<64x256xf32>
    %n7 = stablehlo.negate %n6 : tensor<64x256xf32>
    %n8 = stablehlo.negate %n7 : tensor<64x256xf32>
    %n9 = stablehlo.negate %n8 : tensor<64x256xf32>
    %n10 = stablehlo.negate %n9 : tensor<64x256xf32>
    %n11 = stablehlo.negate %n10 : tensor<64x256xf32>
    %n12 = stablehlo.negate %n11 : tensor<64x256xf32>
    %n13 = stablehlo.negate %n12 : tensor<64x256xf32>
    %n14 = stablehlo.negate %n13 : tensor<64x256xf32>
    %n15 = stablehlo.negate %n14 : tensor<64x256xf32>
    %n16 = stablehlo.negate %n15 : tensor<64x256xf32>
    %n17 = stablehlo.negate %n16 : tensor<64x256xf32>
    %n18 = stablehlo.negate %n17 : tensor<64x256xf32>
    %n19 = stablehlo.negate %n18 : tensor<64x256xf32>
    %0 = stablehlo.power %n19, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %n19, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %n19, %6 : tensor<64x256xf32>
    return %7 : tensor<64x256xf32>
  }
}

// -----

/// It may be computed in a wider type, and divide by two.

// CHECK-LABEL: module @wider
module @wider {
  // CHECK: %[[F:.*]] = "mhlo.fusion"({{.*}} kOutput
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%a: tensor<64x128xbf16>, %w: tensor<128x256xbf16>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %two = stablehlo.constant dense<2.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    %x = stablehlo.convert %d : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %0 = stablehlo.power %x, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %x, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.divide %5, %two : tensor<64x256xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<64x256xf32>
    return %7 : tensor<64x256xf32>
  }
}

// -----

/// A branch or loop computes its own.

// CHECK-LABEL: module @branch
module @branch {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %p: tensor<i1>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %two = stablehlo.constant dense<2.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %r = "stablehlo.if"(%p) ({
      %0 = stablehlo.power %d, %three : tensor<64x256xf32>
      %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
      %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
      %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
      %4 = stablehlo.tanh %3 : tensor<64x256xf32>
      %5 = stablehlo.add %4, %one : tensor<64x256xf32>
      %6 = stablehlo.divide %5, %two : tensor<64x256xf32>
      %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
      stablehlo.return %7 : tensor<64x256xf32>
    }, {
      stablehlo.return %one : tensor<64x256xf32>
    }) : (tensor<i1>) -> tensor<64x256xf32>
    return %r : tensor<64x256xf32>
  }
}

// -----

/// What mixes the result with another value is not searched: the tanh after it is none of GELU.

// CHECK-LABEL: module @mixed
module @mixed {
  // CHECK: %[[F:.*]] = "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.tanh
  // CHECK: mhlo.return
  // CHECK: %[[M:.*]] = stablehlo.multiply %[[F]], %arg2
  // CHECK-NEXT: stablehlo.tanh %[[M]]
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %y: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %d, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %6, %5 : tensor<64x256xf32>
    %8 = stablehlo.multiply %7, %y : tensor<64x256xf32>
    %9 = stablehlo.tanh %8 : tensor<64x256xf32>
    return %9 : tensor<64x256xf32>
  }
}

// -----

/// A reshape between the steps changes no number.

// CHECK-LABEL: module @reshaped
module @reshaped {
  // CHECK: %[[F:.*]] = "mhlo.fusion"({{.*}}) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.tanh
  // CHECK: mhlo.return
  // CHECK: return %[[F]]
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>, %y: tensor<64x256xf32>) -> (tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %r = stablehlo.reshape %3 : (tensor<64x256xf32>) -> tensor<16384xf32>
    %t = stablehlo.tanh %r : tensor<16384xf32>
    %4 = stablehlo.reshape %t : (tensor<16384xf32>) -> tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %d, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %6, %5 : tensor<64x256xf32>
    return %7 : tensor<64x256xf32>
  }
}
