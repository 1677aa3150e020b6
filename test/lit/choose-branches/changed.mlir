// RUN: hespas-opt %s --choose-branches --split-input-file | filecheck %s
// RUN: hespas-opt %s --choose-branches --choose-branches --split-input-file | filecheck %s
// RUN: hespas-opt %s --choose-branches --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=NOTE

/// What has changed in a module that was prepared before is reported.

// NOTE: hespas.branch is brought up to date: {{.*}}changed.mlir:{{.*}}: 0 to 1
// NOTE: hespas.branch is brought up to date: {{.*}}changed.mlir:{{.*}}: 1
// NOTE-NOT: date

/// A branch that has become lighter.

// CHECK-LABEL: module @changed
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @changed attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// A new choice.

// CHECK-LABEL: module @new
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @new attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// What holds is not reported.

// CHECK-LABEL: module @same
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @same attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}
