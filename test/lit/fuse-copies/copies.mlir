// RUN: hespas-opt %s --fuse-copies --split-input-file | filecheck %s --check-prefixes=CHECK,MANY
// RUN: hespas-opt %s --fuse-copies --fuse-copies --split-input-file | filecheck %s --check-prefixes=CHECK,MANY
// RUN: hespas-opt %s --fuse-copies=max-buffers=3 --split-input-file | filecheck %s --check-prefixes=CHECK,FEW

/// The kernels of all cases are those of jaxlib 0.12 for an H100.

/// A loop writes the copies of its result, also those of a view of it, up to the limit of buffers.

// CHECK-LABEL: module @elementwise
module @elementwise {
  // MANY: %[[F:.*]]:3 = "mhlo.fusion"(%arg0)
  // MANY: %[[T:.*]] = stablehlo.tanh
  // MANY: %[[V:.*]] = stablehlo.reshape %[[T]]
  // MANY: mhlo.return %[[T]], %[[V]], %[[T]]
  // MANY-NOT: mhlo.copy
  // MANY: return %[[F]]#0, %[[F]]#2, %[[F]]#1
  // FEW: :2 = "mhlo.fusion"(%arg0)
  // FEW: mhlo.copy
  func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<4096xf32>) {
    %0 = stablehlo.tanh %x : tensor<64x64xf32>
    %1 = mhlo.copy %0 : tensor<64x64xf32>
    %2 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<4096xf32>
    %3 = mhlo.copy %2 : tensor<4096xf32>
    return %0, %1, %3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<4096xf32>
  }
}

// -----

/// So does one that fills a value, or numbers its elements.

// CHECK-LABEL: module @fills
module @fills {
  // CHECK: %[[Z:.*]]:2 = "mhlo.fusion"()
  // CHECK: %[[I:.*]]:2 = "mhlo.fusion"()
  // CHECK: return %[[Z]]#0, %[[Z]]#1, %[[I]]#0, %[[I]]#1
  func.func @main() -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xi32>, tensor<64xi32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %1 = mhlo.copy %0 : tensor<64x64xf32>
    %2 = stablehlo.iota dim = 0 : tensor<64xi32>
    %3 = mhlo.copy %2 : tensor<64xi32>
    return %0, %1, %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xi32>, tensor<64xi32>
  }
}

// -----

/// Constants are broadcast in a fusion, and other dimensions are seen; but what else depends on an
/// operand is elementwise.

// CHECK-LABEL: module @fusions
module @fusions {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: %[[R:.*]] = "mhlo.fusion"(%arg0, %arg1)
  // CHECK: %[[C:.*]] = mhlo.copy %[[R]]
  // CHECK: return %[[F]]#0, %[[F]]#1, %[[R]], %[[C]]
  func.func @main(%x: tensor<64x64xf32>, %row: tensor<64xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<64x64xf32>):
      %two = stablehlo.constant dense<2.0> : tensor<f32>
      %b = stablehlo.broadcast_in_dim %two, dims = [] : (tensor<f32>) -> tensor<4096xf32>
      %v = stablehlo.reshape %a : (tensor<64x64xf32>) -> tensor<4096xf32>
      %m = stablehlo.multiply %v, %b : tensor<4096xf32>
      mhlo.return %m : tensor<4096xf32>
    }) : (tensor<64x64xf32>) -> tensor<4096xf32>
    %1 = mhlo.copy %0 : tensor<4096xf32>
    %2 = "mhlo.fusion"(%x, %row) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<64x64xf32>, %r: tensor<64xf32>):
      %b = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
      %m = stablehlo.add %a, %b : tensor<64x64xf32>
      mhlo.return %m : tensor<64x64xf32>
    }) : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
    %3 = mhlo.copy %2 : tensor<64x64xf32>
    return %0, %1, %2, %3 : tensor<4096xf32>, tensor<4096xf32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

/// One of several results is copied apart if something else reads it, such as the end.

// CHECK-LABEL: module @several
module @several {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: %[[C:.*]] = mhlo.copy %[[F]]#0
  // CHECK: return %[[F]]#0, %[[C]], %[[F]]#1
  func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
    %0:2 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<64x64xf32>):
      %s = stablehlo.sine %a : tensor<64x64xf32>
      %c = stablehlo.cosine %a : tensor<64x64xf32>
      mhlo.return %s, %c : tensor<64x64xf32>, tensor<64x64xf32>
    }) : (tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>)
    %1 = mhlo.copy %0#0 : tensor<64x64xf32>
    return %0#0, %1, %0#1 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

/// Copies of reductions, of repeated arguments, and of what a broadcast scalar selects stay.

// CHECK-LABEL: module @others
module @others {
  // CHECK-NOT: mhlo.fusion
  // CHECK-COUNT-4: mhlo.copy
  // CHECK: return
  func.func @main(%x: tensor<64x64xf32>, %row: tensor<64xf32>, %p: tensor<i1>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = mhlo.copy %0 : tensor<64xf32>
    %2 = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %3 = mhlo.copy %2 : tensor<64x64xf32>
    %4 = stablehlo.select %p, %x, %2 : tensor<i1>, tensor<64x64xf32>
    %5 = mhlo.copy %4 : tensor<64x64xf32>
    %6 = mhlo.copy %x : tensor<64x64xf32>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

/// What a loop of the program copies stays: its copies may share buffers with what it reads.

// CHECK-LABEL: module @loop
module @loop {
  // CHECK-NOT: mhlo.fusion
  // CHECK: mhlo.copy
  func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<8> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<64xf32>, tensor<64xf32>
    cond {
      %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %a : tensor<64xf32>
      %u = mhlo.copy %t : tensor<64xf32>
      stablehlo.return %n, %t, %u : tensor<i32>, tensor<64xf32>, tensor<64xf32>
    }
    return %0#1, %0#2 : tensor<64xf32>, tensor<64xf32>
  }
}
