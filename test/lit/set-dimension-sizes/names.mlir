// RUN: hespas-opt %s '--set-dimension-sizes=dims="arg0_dim1=2,arg1=3x4,arg2_dim0=5"' --split-input-file | filecheck %s
// RUN: hespas-opt %s '--set-dimension-sizes=dims="arg0_dim1=2,arg1=3x4,arg2_dim0=5"' --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARNING
// RUN: hespas-opt %s '--set-dimension-sizes=dims="arg0_dim1=2,arg1=3x4,arg2_dim0=5"' --split-input-file --mlir-print-debuginfo 2>&1 | filecheck %s --check-prefix=PLACES

/// Without names of a framework, a dimension is named by its argument and its place; names and shapes of
/// arguments can be mixed, and a bound in the type is the default.

// WARNING: warning: sizes assumed for symbolic dimensions: arg0_dim0=16; set them
// CHECK-LABEL: module @numbers
// CHECK: @main(%{{.*}}: tensor<16x2xf32>, %{{.*}}: tensor<3x4xi8>, %{{.*}}: tensor<5xf32>) -> tensor<16x2xf32>
// CHECK-NEXT: stablehlo.negate %{{.*}} : tensor<16x2xf32>
// PLACES: stablehlo.negate {{.*}} loc(#[[L:.*]])
// PLACES: #[[L]] = loc("the only op")
module @numbers {
  func.func public @main(%x: tensor<?x?xf32, #stablehlo.bounds<16, ?>>, %y: tensor<3x?xi8>, %z: tensor<?xf32>) -> tensor<?x?xf32, #stablehlo.bounds<16, ?>> {
    %0 = stablehlo.negate %x : tensor<?x?xf32, #stablehlo.bounds<16, ?>> loc("the only op")
    return %0 : tensor<?x?xf32, #stablehlo.bounds<16, ?>>
  }
}

// -----

/// A dimension with neither size nor bound has 128 also where another one has a bound; a message that names
/// another number of arguments or dimensions than are symbolic is not about them.

// WARNING: warning: sizes assumed for symbolic dimensions: arg0_dim0=16, arg0_dim2=128; set them
// CHECK-LABEL: module @others
// CHECK: @main(%{{.*}}: tensor<16x2x128xf32>, %{{.*}}: tensor<3x4xf32>, %{{.*}}: tensor<5xf32>)
module @others {
  func.func public @main(%x: tensor<?x?x?xf32, #stablehlo.bounds<16, 8, ?>>, %y: tensor<?x4xf32>, %z: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b, s, t), args[1].shape = (c, 4)"} : (tensor<i1>) -> ()
    return
  }
}
