// RUN: hespas-opt %s --remove-empty-values --trivial-dce --split-input-file --allow-unregistered-dialect | filecheck %s
// RUN: hespas-opt %s --remove-empty-values --remove-empty-values --trivial-dce --split-input-file --allow-unregistered-dialect | filecheck %s

/// A value without elements is a constant, whatever computes it.

// CHECK-LABEL: module @chain
// CHECK: func.func @main(
// CHECK-NEXT: %[[EMPTY:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<16x0xf32>
// CHECK-NEXT: return %[[EMPTY]]
module @chain {
  func.func @main(%x: tensor<0x16xf32>) -> tensor<16x0xf32> {
    %0 = stablehlo.tanh %x : tensor<0x16xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<0x16xf32>) -> tensor<16x0xf32>
    return %1 : tensor<16x0xf32>
  }
}

// -----

/// A product that adds up nothing is zero, also on whole numbers.

// CHECK-LABEL: module @products
// CHECK-DAG: stablehlo.constant dense<0.000000e+00> : tensor<16x8xbf16>
// CHECK-DAG: stablehlo.constant dense<0> : tensor<16x8xi32>
// CHECK-DAG: stablehlo.constant dense<0.000000e+00> : tensor<1x2x9x9xf32>
// CHECK-NOT: dot_general
// CHECK-NOT: convolution
module @products {
  func.func @main(%x: tensor<16x0xbf16>, %w: tensor<0x8xbf16>, %i: tensor<16x0xi8>, %j: tensor<0x8xi8>, %y: tensor<1x0x9x9xf32>, %k: tensor<2x0x1x1xf32>)
      -> (tensor<16x8xbf16>, tensor<16x8xi32>, tensor<1x2x9x9xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x0xbf16>, tensor<0x8xbf16>) -> tensor<16x8xbf16>
    %1 = stablehlo.dot_general %i, %j, contracting_dims = [1] x [0] : (tensor<16x0xi8>, tensor<0x8xi8>) -> tensor<16x8xi32>
    %2 = stablehlo.convolution(%y, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x0x9x9xf32>, tensor<2x0x1x1xf32>) -> tensor<1x2x9x9xf32>
    return %0, %1, %2 : tensor<16x8xbf16>, tensor<16x8xi32>, tensor<1x2x9x9xf32>
  }
}

// -----

/// A reduction and a padding start from a scalar, and an update changes nothing.

// CHECK-LABEL: module @others
// CHECK: func.func @main(%[[X:.*]]: tensor<0x4xf32>, %[[Y:.*]]: tensor<2x4xf32>, %[[S:.*]]: tensor<f32>,
// CHECK-DAG: %[[SUM:.*]] = stablehlo.broadcast_in_dim %[[S]], dims = [] : (tensor<f32>) -> tensor<4xf32>
// CHECK-DAG: %[[PAD:.*]] = stablehlo.broadcast_in_dim %[[S]], dims = [] : (tensor<f32>) -> tensor<2x4xf32>
// CHECK-DAG: %[[TWO:.*]] = stablehlo.concatenate %[[Y]], %[[Y]], dim = 0 :
// CHECK: return %[[SUM]], %[[PAD]], %[[Y]], %[[TWO]], %[[Y]] :
module @others {
  func.func @main(%x: tensor<0x4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>, %i: tensor<i32>)
      -> (tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) {
    %0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [0] : (tensor<0x4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.pad %x, %s, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<0x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %2 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<0x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = stablehlo.concatenate %y, %x, %y, dim = 0 : (tensor<2x4xf32>, tensor<0x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %4 = stablehlo.dynamic_update_slice %y, %x, %i, %i : (tensor<2x4xf32>, tensor<0x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>
  }
}

// -----

/// A scatter of no updates is its operand.

// CHECK-LABEL: module @scatter
// CHECK: func.func @main(%[[Y:.*]]: tensor<8xf32>,
// CHECK-NEXT: return %[[Y]] : tensor<8xf32>
module @scatter {
  func.func @main(%y: tensor<8xf32>, %i: tensor<0x1xi32>, %u: tensor<0xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.scatter"(%y, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<8xf32>, tensor<0x1xi32>, tensor<0xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Complex zeros have two parts. A call stays, and an operand with elements is reduced.

// CHECK-LABEL: module @stays
// CHECK: %[[EMPTY:.*]] = stablehlo.constant dense<{{.*}}> : tensor<0xcomplex<f32>>
// CHECK: stablehlo.custom_call @acme(%[[EMPTY]])
// CHECK: stablehlo.reduce(
module @stays {
  func.func @main(%x: tensor<0xcomplex<f32>>, %y: tensor<2x4xf32>, %s: tensor<f32>) -> (tensor<0xcomplex<f32>>, tensor<2xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %x, %x : tensor<0xcomplex<f32>>
    %1 = stablehlo.custom_call @acme(%0) : (tensor<0xcomplex<f32>>) -> tensor<2xf32>
    %2 = stablehlo.reduce(%y init: %s) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0, %1, %2 : tensor<0xcomplex<f32>>, tensor<2xf32>, tensor<4xf32>
  }
}

// -----

/// Elements that are no numbers have no zero.

// CHECK-LABEL: module @indices
// CHECK: %[[INDICES:.*]] = "acme.count"
// CHECK: return %[[INDICES]] : tensor<0xindex>
module @indices {
  func.func @main(%x: tensor<0xindex>) -> tensor<0xindex> {
    %0 = "acme.count"(%x) : (tensor<0xindex>) -> tensor<0xindex>
    return %0 : tensor<0xindex>
  }
}
