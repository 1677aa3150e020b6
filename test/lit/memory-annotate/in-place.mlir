// RUN: hespas-opt %s --memory-annotate=model-fusion=false --split-input-file | filecheck %s

/// What XLA writes over an operand that nothing reads any more takes no memory: updates over the buffer, passes of a sort
/// over each operand, a system over its right-hand sides, calls over the operands that they declare, and elementwise
/// fusions. Beside the arguments, a step then has one value of 4 KiB at a time (of the sort two), and one more where the
/// operand is another: the matrix of a system, or an operand that a call does not declare.

// CHECK: module @update
// CHECK-SAME: live_bytes = 16388 : i64
module @update {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %z: tensor<32x32xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.dynamic_update_slice %0, %z, %i, %i : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @sort
// CHECK-SAME: live_bytes = 16384 : i64
module @sort {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.dot %y, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %2:2 = "stablehlo.sort"(%0, %1) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }) : (tensor<32x32xf32>, tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>)
    return %2#0, %2#1 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}

// -----

// CHECK: module @system
// CHECK-SAME: live_bytes = 12288 : i64
module @system {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "stablehlo.triangular_solve"(%x, %0) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @matrix
// CHECK-SAME: live_bytes = 16384 : i64
module @matrix {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "stablehlo.triangular_solve"(%0, %x) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @declared
// CHECK-SAME: live_bytes = 12288 : i64
module @declared {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.custom_call @kernel(%x, %0) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @undeclared
// CHECK-SAME: live_bytes = 16384 : i64
module @undeclared {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.custom_call @kernel(%0, %x) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

/// In a fusion everything that depends on the operand must be elementwise, or the operand is what its last op updates.

// CHECK: module @elementwise
// CHECK-SAME: live_bytes = 12288 : i64
module @elementwise {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "mhlo.fusion"(%0, %x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>):
      %2 = stablehlo.transpose %b, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %3 = stablehlo.tanh %a : tensor<32x32xf32>
      %4 = stablehlo.add %2, %3 : tensor<32x32xf32>
      mhlo.return %4 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @moved
// CHECK-SAME: live_bytes = 16384 : i64
module @moved {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "mhlo.fusion"(%0, %x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>):
      %2 = stablehlo.tanh %a : tensor<32x32xf32>
      %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %4 = stablehlo.add %3, %b : tensor<32x32xf32>
      mhlo.return %4 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @updated
// CHECK-SAME: live_bytes = 12292 : i64
module @updated {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "mhlo.fusion"(%0, %x, %i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>, %j: tensor<i32>):
      %2 = stablehlo.slice %b [0:1, 0:32] : (tensor<32x32xf32>) -> tensor<1x32xf32>
      %3 = stablehlo.dynamic_update_slice %a, %2, %j, %j : (tensor<32x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
      mhlo.return %3 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

/// The update may stand between views of what it updates and of its result,

// CHECK: module @viewed
// CHECK-SAME: live_bytes = 12292 : i64
module @viewed {
  func.func @main(%x: tensor<32x32xf32>, %v: tensor<1024xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "mhlo.fusion"(%0, %v, %i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>, %b: tensor<1024xf32>, %j: tensor<i32>):
      %2 = stablehlo.reshape %a : (tensor<32x32xf32>) -> tensor<1024xf32>
      %3 = stablehlo.slice %b [0:32] : (tensor<1024xf32>) -> tensor<32xf32>
      %4 = stablehlo.dynamic_update_slice %2, %3, %j : (tensor<1024xf32>, tensor<32xf32>, tensor<i32>) -> tensor<1024xf32>
      %5 = stablehlo.reshape %4 : (tensor<1024xf32>) -> tensor<32x32xf32>
      mhlo.return %5 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>, tensor<1024xf32>, tensor<i32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

/// and it must be the operand that is updated, not what is written into it.

// CHECK: module @read_update
// CHECK-SAME: live_bytes = 16388 : i64
module @read_update {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %i: tensor<i32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "mhlo.fusion"(%0, %x, %i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>, %j: tensor<i32>):
      %2 = stablehlo.slice %a [0:1, 0:32] : (tensor<32x32xf32>) -> tensor<1x32xf32>
      %3 = stablehlo.dynamic_update_slice %b, %2, %j, %j : (tensor<32x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
      mhlo.return %3 : tensor<32x32xf32>
    }) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

/// A reduction beside an elementwise result is made before it is written; a second one may not be. Alone, it reads all.

// CHECK: module @reduced_too
// CHECK-SAME: live_bytes = 12416 : i64
module @reduced_too {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32xf32>) {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1:2 = "mhlo.fusion"(%0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>):
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.tanh %a : tensor<32x32xf32>
      %3 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
      mhlo.return %2, %3 : tensor<32x32xf32>, tensor<32xf32>
    }) : (tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32xf32>)
    return %1#0, %1#1 : tensor<32x32xf32>, tensor<32xf32>
  }
}

// -----


// CHECK: module @reduced_twice
// CHECK-SAME: live_bytes = 16640 : i64
module @reduced_twice {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>) {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1:3 = "mhlo.fusion"(%0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<32x32xf32>):
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.tanh %a : tensor<32x32xf32>
      %3 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
      %4 = stablehlo.reduce(%2 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
      mhlo.return %2, %3, %4 : tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>
    }) : (tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>)
    return %1#0, %1#1, %1#2 : tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>
  }
}

// -----

/// Without a fusion, too: what a scatter updates, and what devices reduce.

// CHECK: module @scatter
// CHECK-SAME: live_bytes = 12420 : i64
module @scatter {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>, %u: tensor<32xf32>, %i: tensor<1xi32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "stablehlo.scatter"(%0, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<32x32xf32>, tensor<1xi32>, tensor<32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @reduced_by_all
// CHECK-SAME: live_bytes = 12288 : i64
module @reduced_by_all attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

/// A fusion that has other elements on the way, such as the bytes of floats, needs a result of its own. An operand that it
/// does not read is no matter.

// CHECK: module @elements
// CHECK-SAME: timeline_bytes = array<i64: 8192, 12288, 12288, 8192>
module @elements {
  func.func @main(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<ui32>) {
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.reverse %x, dims = [0] : tensor<1024xf32>
    %1 = "mhlo.fusion"(%0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024xf32>):
      %b = stablehlo.bitcast_convert %a : (tensor<1024xf32>) -> tensor<1024x4xui8>
      %c = stablehlo.not %b : tensor<1024x4xui8>
      %d = stablehlo.bitcast_convert %c : (tensor<1024x4xui8>) -> tensor<1024xf32>
      mhlo.return %d : tensor<1024xf32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %2 = "mhlo.fusion"(%x, %1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024xf32>):
      %b = stablehlo.tanh %a : tensor<1024xf32>
      mhlo.return %b : tensor<1024xf32>
    }) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    return %2, %id : tensor<1024xf32>, tensor<ui32>
  }
}
