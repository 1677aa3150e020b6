// RUN: hespas-opt %s --check-input --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --check-input --check-input --split-input-file 2>&1 | filecheck %s

/// A module that can be estimated stays as it is: single dimensions may be symbolic, a function may be
/// called on two ways.

// CHECK-NOT: {{warning|error}}
// CHECK: module {
// CHECK-NEXT: func.func public @main(%[[X:.*]]: tensor<?xf32>) -> tensor<?xf32> {
// CHECK-NEXT: %[[A:.*]] = call @left(%[[X]])
// CHECK-NEXT: %[[B:.*]] = call @right(%[[A]])
// CHECK-NEXT: return %[[B]]
// CHECK: func.func private @left
// CHECK-NEXT: call @both
// CHECK: func.func private @right
// CHECK-NEXT: call @both
// CHECK: func.func private @both
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = call @left(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = call @right(%0) : (tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func private @left(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = call @both(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func private @right(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = call @both(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func private @both(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

/// What the entry does not call is not looked at.

// CHECK-NOT: {{warning|error}}
// CHECK-LABEL: module @uncalled
// CHECK: func.func @main
// CHECK: func.func @endless
module @uncalled {
  func.func @main() { return }
  func.func @endless() {
    call @endless() : () -> ()
    return
  }
}
