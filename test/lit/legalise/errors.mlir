// RUN: not hespas-opt %s --legalise --split-input-file 2>&1 | filecheck %s

/// An op that nobody can convert.

// CHECK: error: 'builtin.module': cannot legalise the module: failed to legalize operation 'chlo.broadcast_add'
func.func @main(%x: tensor<*xf32>, %y: tensor<4xf32>) -> tensor<*xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<*xf32>, tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

/// Neither can the constraints be converted to which chlo expands a sum of symbolic dimensions.

// CHECK: error: 'builtin.module': cannot legalise the module: failed to legalize operation 'shape.cstr_broadcastable'
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
