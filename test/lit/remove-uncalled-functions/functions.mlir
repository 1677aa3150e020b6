// RUN: hespas-opt %s --remove-uncalled-functions --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --remove-uncalled-functions --remove-uncalled-functions --split-input-file 2>&1 | filecheck %s

/// The entry is main where several functions are public. The others go with a warning, and so do those that
/// only they call; a private function that nothing calls goes without one.

// CHECK: warning: the function @other ({{.*}}functions.mlir:{{[0-9]+:[0-9]+}}) is not called from the entry function: removed
// CHECK-NEXT: warning: the function @helper ({{.*}}functions.mlir:{{[0-9]+:[0-9]+}}) is not called from the entry function: removed
// CHECK-NOT: warning
// CHECK-LABEL: module @several
// CHECK-NEXT: func.func @main
// CHECK-NEXT: call @callee
// CHECK: func.func private @callee
// CHECK-NOT: func.func
module @several {
  func.func @other() {
    call @helper() : () -> ()
    call @callee() : () -> ()
    return
  }
  func.func @main() {
    call @callee() : () -> ()
    return
  }
  func.func private @callee() { return }
  func.func private @helper() { return }
  func.func private @never() { return }
}

// -----

/// The only public function is the entry, whatever its name; one that it calls stays although it is public.

// CHECK-NOT: warning
// CHECK-LABEL: module @step
// CHECK-NEXT: func.func @step
// CHECK: func.func private @main
module @step {
  func.func @step() {
    call @main() : () -> ()
    return
  }
  func.func private @main() { return }
}

// -----

/// A function stays that a composite, a custom call, an async op or a reference names, or a function that is called in turn.

// CHECK-NOT: warning
// CHECK-LABEL: module @references
// CHECK: func.func @main
// CHECK: func.func @composite
// CHECK: func.func private @kernel
// CHECK: func.func private @listed
// CHECK: func.func private @constant
// CHECK: func.func private @async
// CHECK: func.func private @inner
module @references {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "acme.gelu" %x {decomposition = @composite} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @call(%0) {called_computations = [@kernel], mhlo.backend_config = {bodies = [@listed]}} : (tensor<4xf32>) -> tensor<4xf32>
    %f = func.constant @constant : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "mhlo.async_start"(%1) <{called_computation = @async, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>>
    %3 = "mhlo.async_done"(%2) {called_computation = @async, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func @composite(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  func.func private @kernel(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  func.func private @listed(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  func.func private @constant(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  func.func private @async(%x: tensor<4xf32>) -> tensor<4xf32> attributes {execution_thread = "main"} {
    %0 = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
}
