// RUN: hespas-opt %s --inline-calls --split-input-file | filecheck %s

/// JAX writes slices of the arrays that a scan fills by a function, which it calls for each array of
/// a shape. In a program with values on the host these are inlined, so that the placement and the
/// update of the slice meet.

// CHECK-LABEL: module @slices
module @slices {
  // CHECK: func.func @main
  // CHECK-NOT: = call @
  // CHECK-COUNT-2: stablehlo.dynamic_update_slice
  // CHECK: call @square
  // CHECK: call @square
  func.func @main(%a: tensor<8x512xf32>, %b: tensor<8x512xf32>, %x: tensor<512xf32>, %i: tensor<i32>) -> (tensor<8x512xf32>, tensor<8x512xf32>, tensor<512xf32>) {
    %h = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<512xf32>) -> tensor<512xf32>
    %0 = func.call @update(%a, %h, %i) : (tensor<8x512xf32>, tensor<512xf32>, tensor<i32>) -> tensor<8x512xf32>
    %1 = func.call @update(%b, %h, %i) : (tensor<8x512xf32>, tensor<512xf32>, tensor<i32>) -> tensor<8x512xf32>
    %2 = func.call @square(%x) : (tensor<512xf32>) -> tensor<512xf32>
    %3 = func.call @square(%2) : (tensor<512xf32>) -> tensor<512xf32>
    return %0, %1, %3 : tensor<8x512xf32>, tensor<8x512xf32>, tensor<512xf32>
  }
  func.func private @update(%a: tensor<8x512xf32>, %x: tensor<512xf32>, %i: tensor<i32>) -> tensor<8x512xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %row = stablehlo.reshape %x : (tensor<512xf32>) -> tensor<1x512xf32>
    %0 = stablehlo.dynamic_update_slice %a, %row, %i, %zero : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
    return %0 : tensor<8x512xf32>
  }
  func.func private @square(%x: tensor<512xf32>) -> tensor<512xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<512xf32>
    return %0 : tensor<512xf32>
  }
}

// -----

/// So are functions that place a value themselves: what is on the host already is not copied there.

// CHECK-LABEL: module @placements
module @placements {
  // CHECK-NOT: = call @
  // CHECK-COUNT-2: @annotate_device_placement
  func.func @main(%x: tensor<512xf32>) -> tensor<512xf32> {
    %0 = func.call @move(%x) : (tensor<512xf32>) -> tensor<512xf32>
    %1 = func.call @move(%0) : (tensor<512xf32>) -> tensor<512xf32>
    return %1 : tensor<512xf32>
  }
  func.func private @move(%x: tensor<512xf32>) -> tensor<512xf32> {
    %0 = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<512xf32>) -> tensor<512xf32>
    return %0 : tensor<512xf32>
  }
}

// -----

/// Without such values, what slices is called like other functions.

// CHECK-LABEL: module @device
module @device {
  // CHECK-COUNT-2: call @update
  func.func @main(%a: tensor<8x512xf32>, %x: tensor<1x512xf32>, %i: tensor<i32>) -> tensor<8x512xf32> {
    %0 = func.call @update(%a, %x, %i) : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>) -> tensor<8x512xf32>
    %1 = func.call @update(%0, %x, %i) : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>) -> tensor<8x512xf32>
    return %1 : tensor<8x512xf32>
  }
  func.func private @update(%a: tensor<8x512xf32>, %x: tensor<1x512xf32>, %i: tensor<i32>) -> tensor<8x512xf32> {
    %0 = stablehlo.dynamic_update_slice %a, %x, %i, %i : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
    return %0 : tensor<8x512xf32>
  }
}
