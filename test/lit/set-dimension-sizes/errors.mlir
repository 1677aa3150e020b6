// RUN: not hespas-opt %s --set-dimension-sizes --split-input-file 2>&1 | filecheck %s

/// Expressions that give no size: an operator of no whole numbers, a division by zero, powers that are no size, no expression.

// CHECK: error: prepare: cannot evaluate the dimension 'b / 2' of argument 0; set dims="arg0=AxBx..."
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b / 2)"} : (tensor<i1>) -> ()
    return
  }
}

// -----

// CHECK: error: prepare: cannot evaluate the dimension 'b // 0' of argument 0;
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b // 0)"} : (tensor<i1>) -> ()
    return
  }
}

// -----

// CHECK: error: prepare: cannot evaluate the dimension '2**b' of argument 0;
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (2**b)"} : (tensor<i1>) -> ()
    return
  }
}

// -----

// CHECK: error: prepare: cannot evaluate the dimension '2**-b' of argument 0;
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (2**-b)"} : (tensor<i1>) -> ()
    return
  }
}

// -----

// CHECK: error: prepare: cannot evaluate the dimension 'b b' of argument 0;
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b b)"} : (tensor<i1>) -> ()
    return
  }
}

// -----

// CHECK: error: prepare: cannot evaluate the dimension 'ceil(b, 2)' of argument 0;
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (ceil(b, 2))"} : (tensor<i1>) -> ()
    return
  }
}

// -----

/// Sizes that the program does not allow, by its own assertion or because an op has no other size.

// CHECK: errors.mlir: error: the module does not allow these sizes: b must be 7; set them with hespas-opt --prepare=dims=
module {
  func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %c = stablehlo.constant dense<7> : tensor<i32>
    %ok = stablehlo.compare EQ, %n, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok) {error_message = "b must be 7", has_side_effect = true} : (tensor<i1>) -> ()
    return %x : tensor<?xf32>
  }
}

// -----

// CHECK: errors.mlir: error: the module does not allow these sizes: number of output elements (3) doesn't match expected number of elements (128); set them
module {
  func.func public @main(%x: tensor<?xf32>) -> tensor<3xf32> {
    %0 = stablehlo.reshape %x : (tensor<?xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}

// -----

/// Where MLIR knows no line, there is none in the message, and the name of the op's location stays.

// CHECK: errors.mlir: error: the module does not allow these sizes: loc("step"): number of output elements (3) doesn't match expected number of elements (128); set them
module {
  func.func public @main(%x: tensor<?xf32>) -> tensor<3xf32> {
    %0 = stablehlo.reshape %x : (tensor<?xf32>) -> tensor<3xf32> loc("step")
    return %0 : tensor<3xf32>
  }
}

// -----

/// An argument without a rank has no dimensions to set.

// CHECK: errors.mlir:{{[0-9]+}}:3: error: 'func.func': argument 0 of the entry function has the type tensor<*xf32> without a rank
module {
  func.func public @main(%x: tensor<*xf32>) {
    return
  }
}

// -----

/// A size that is an element of a tensor is not known before the program runs.

// CHECK: errors.mlir:{{[0-9]+}}:10: error: 'tensor.extract': a size is not computed from sizes of tensors and constants; export the module with static shapes
module {
  func.func public @main(%x: tensor<?xf32>, %n: tensor<1xindex>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %0 = tensor.extract %n[%c0] : tensor<1xindex>
    %1 = tensor.from_elements %0 : tensor<1xindex>
    %2 = stablehlo.dynamic_reshape %x, %1 : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>
    return %2 : tensor<?xf32>
  }
}

// -----

/// Neither is the size of a dimension whose number is computed.

// CHECK: errors.mlir:{{[0-9]+}}:10: error: 'tensor.dim': the number of the dimension is not constant
module {
  func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?xf32>
    %0 = tensor.dim %x, %n : tensor<?xf32>
    %1 = tensor.from_elements %0 : tensor<1xindex>
    %2 = stablehlo.dynamic_reshape %x, %1 : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>
    return %2 : tensor<?xf32>
  }
}

// -----

/// A power whose exponent times the bits of its base is more than 63 is not computed.

// CHECK: error: prepare: cannot evaluate the dimension '2**32' of argument 0;
module {
  func.func public @main(%x: tensor<?xf32>) {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (2**32)"} : (tensor<i1>) -> ()
    return
  }
}
