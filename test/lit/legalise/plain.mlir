// RUN: hespas-opt %s --legalise --split-input-file | filecheck %s
// RUN: hespas-opt %s --legalise --legalise --split-input-file | filecheck %s

/// What XLA has an op for becomes it; the rest of chlo is expanded.

// CHECK-LABEL: module @chlo
// CHECK: func.func public @main(%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: %[[E:.*]] = mhlo.erf %[[X]]
// CHECK-NEXT: %[[S:.*]] = stablehlo.multiply %[[E]], %[[E]]
// CHECK-NEXT: %[[V:.*]], %[[I:.*]] = mhlo.topk(%[[S]], k = 2)
// CHECK-NEXT: return %[[V]], %[[I]]
module @chlo {
  func.func public @main(%x: tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
    %0 = chlo.erf %x : tensor<4x8xf32> -> tensor<4x8xf32>
    %1 = chlo.square %0 : tensor<4x8xf32> -> tensor<4x8xf32>
    %2:2 = chlo.top_k(%1, k=2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    return %2#0, %2#1 : tensor<4x2xf32>, tensor<4x2xi32>
  }
}

// -----

/// A selection that need not be stable becomes stable: MLIR cannot read what it prints of another.

// CHECK-LABEL: module @unstable
// CHECK: mhlo.topk(%{{.*}}, k = 2) : tensor
module @unstable {
  func.func public @main(%x: tensor<4x8xf32>) -> tensor<4x2xf32> {
    %0:2 = "chlo.top_k"(%x) {k = 2 : i64, is_stable = false} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    return %0#0 : tensor<4x2xf32>
  }
}

// -----

/// Ops of the dialect shape, also in a called function.

// CHECK-LABEL: module @shape
// CHECK: func.func private @like(%[[X:.*]]: tensor<?xf32>
// CHECK-NEXT: stablehlo.get_dimension_size %[[X]], dim = 0
// CHECK-NOT: shape.
module @shape {
  func.func @main(%x: tensor<?xf32>, %y: tensor<1xf32>) -> tensor<?xf32> {
    %0 = call @like(%x, %y) : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
  func.func private @like(%x: tensor<?xf32>, %y: tensor<1xf32>) -> tensor<?xf32> {
    %0 = shape.shape_of %x : tensor<?xf32> -> tensor<1xindex>
    %1 = stablehlo.dynamic_broadcast_in_dim %y, %0, dims = [0] : (tensor<1xf32>, tensor<1xindex>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}

// -----

/// An op of chlo on a symbolic dimension becomes ops of shape, which are converted too.

// CHECK-LABEL: module @symbolic
// CHECK: stablehlo.get_dimension_size
// CHECK: stablehlo.multiply
// CHECK-NOT: {{shape\.|chlo\.}}
module @symbolic {
  func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = chlo.acos %x : tensor<?xf32> -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

/// Other dialects stay.

// CHECK-LABEL: module @others
// CHECK-NEXT: func.func @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[E:.*]] = mhlo.erf %[[X]]
// CHECK-NEXT: %[[C:.*]] = arith.negf %[[E]]
// CHECK-NEXT: return %[[C]]
module @others {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = mhlo.erf %x : tensor<4xf32>
    %1 = arith.negf %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

/// jax.export writes functions as composites of their names, which XLA reads as the ops.

// CHECK-LABEL: module @composite
// CHECK: %[[E:.*]] = mhlo.erf
// CHECK-NEXT: %[[F:.*]] = mhlo.erf %[[E]]
// CHECK-NEXT: stablehlo.composite "acme.erf" %[[F]]
module @composite {
  func.func @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.composite "chlo.erf" %x {decomposition = @erf} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %1 = stablehlo.composite "chlo.erf" %0 {decomposition = @erf} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %2 = stablehlo.composite "acme.erf" %1 {decomposition = @erf} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %2 : tensor<64x64xbf16>
  }
  func.func private @erf(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.tanh %x : tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}

// -----

// CHECK-LABEL: module @composites_with_attributes
module @composites_with_attributes {
  // CHECK: mhlo.topk(%{{.*}}, k = 4)
  // CHECK: "mhlo.ragged_dot"{{.*}}lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]
  // CHECK-NOT: composite
  // CHECK: return
  func.func @main(%x: tensor<64x32xbf16>, %w: tensor<8x32x16xbf16>, %s: tensor<8xi32>) -> (tensor<64x4xbf16>, tensor<64x4xi32>, tensor<64x16xbf16>) {
    %0:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 4 : i64}, decomposition = @top_k, version = 1 : i32} : (tensor<64x32xbf16>) -> (tensor<64x4xbf16>, tensor<64x4xi32>)
    %1 = stablehlo.composite "chlo.ragged_dot" %x, %w, %s {composite_attributes = {precision_config = ["DEFAULT", "HIGHEST"], ragged_dot_dimension_numbers = [dense<> : tensor<0xi64>, dense<> : tensor<0xi64>, dense<1> : tensor<1xi64>, dense<1> : tensor<1xi64>, dense<0> : tensor<1xi64>, dense<0> : tensor<1xi64>]}, decomposition = @ragged_dot, version = 1 : i32} : (tensor<64x32xbf16>, tensor<8x32x16xbf16>, tensor<8xi32>) -> tensor<64x16xbf16>
    return %0#0, %0#1, %1 : tensor<64x4xbf16>, tensor<64x4xi32>, tensor<64x16xbf16>
  }
  func.func private @top_k(%x: tensor<64x32xbf16>) -> (tensor<64x4xbf16>, tensor<64x4xi32>) {
    %v = stablehlo.slice %x [0:64, 0:4] : (tensor<64x32xbf16>) -> tensor<64x4xbf16>
    %i = stablehlo.convert %v : (tensor<64x4xbf16>) -> tensor<64x4xi32>
    return %v, %i : tensor<64x4xbf16>, tensor<64x4xi32>
  }
  func.func private @ragged_dot(%x: tensor<64x32xbf16>, %w: tensor<8x32x16xbf16>, %s: tensor<8xi32>) -> tensor<64x16xbf16> {
    %0 = stablehlo.slice %x [0:64, 0:16] : (tensor<64x32xbf16>) -> tensor<64x16xbf16>
    return %0 : tensor<64x16xbf16>
  }
}

// -----

/// Functions are expanded, unless the XLA that is installed has ops for them. A composite that lacks what its op needs stays.

// CHECK-LABEL: module @functions
module @functions {
  // CHECK-NOT: "chlo.{{a|c|e|s}}
  // CHECK: mhlo.erf
  // CHECK-NOT: "chlo.{{a|c|e|s|m}}
  // CHECK: mhlo.mulhi
  // CHECK: stablehlo.composite "chlo.top_k"
  // CHECK: stablehlo.composite "chlo.ragged_dot"
  func.func @main(%x: tensor<8xf32>, %i: tensor<8xui32>) -> (tensor<8xf32>, tensor<8xui32>) {
    %0 = stablehlo.composite "chlo.acos" %x {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.composite "chlo.acosh" %0 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.composite "chlo.asin" %1 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %3 = stablehlo.composite "chlo.asinh" %2 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %4 = stablehlo.composite "chlo.atanh" %3 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %5 = stablehlo.composite "chlo.cosh" %4 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %6 = stablehlo.composite "chlo.erf" %5 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %7 = stablehlo.composite "chlo.sinh" %6 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %i1 = stablehlo.composite "chlo.mulhi" %i, %i {decomposition = @two} : (tensor<8xui32>, tensor<8xui32>) -> tensor<8xui32>
    %8 = stablehlo.composite "chlo.top_k" %7 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    %9 = stablehlo.composite "chlo.ragged_dot" %8 {decomposition = @one} : (tensor<8xf32>) -> tensor<8xf32>
    return %9, %i1 : tensor<8xf32>, tensor<8xui32>
  }
  func.func private @two(%x: tensor<8xui32>, %y: tensor<8xui32>) -> tensor<8xui32> {
    return %x : tensor<8xui32>
  }
  func.func private @one(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
