// RUN: hespas-opt %s --replace-host-placements --split-input-file | filecheck %s
// RUN: hespas-opt %s --replace-host-placements --replace-host-placements --split-input-file | filecheck %s

/// JAX places each result of a program that names memories. XLA copies nothing that is there already
/// (hespas-opt --xla-optimize=target=H100_80GB,keep-hlo=FOLDER, for all cases).

/// The state of an optimiser is fetched, changed and sent back, once each.

// CHECK-LABEL: module @state
// CHECK: %[[D:.*]] = stablehlo.custom_call @hespas_fetch(%arg1)
// CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[D]], %arg0
// CHECK-NEXT: %[[P:.*]] = stablehlo.subtract %arg0, %[[S]]
// CHECK-NEXT: %[[H:.*]] = stablehlo.custom_call @hespas_offload(%[[S]])
// CHECK-NEXT: return %[[P]], %[[H]]
module @state {
  func.func @main(%p: tensor<16xf32>, %s: tensor<16xf32> {mhlo.memory_kind = "pinned_host"}) -> (tensor<16xf32>, tensor<16xf32> {mhlo.memory_kind = "pinned_host"}) {
    %0 = stablehlo.custom_call @MoveToDevice(%s) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = stablehlo.add %0, %p : tensor<16xf32>
    %2 = stablehlo.subtract %p, %1 : tensor<16xf32>
    %3 = stablehlo.custom_call @MoveToHost(%1) : (tensor<16xf32>) -> tensor<16xf32>
    %4 = stablehlo.custom_call @MoveToDevice(%2) : (tensor<16xf32>) -> tensor<16xf32>
    %5 = stablehlo.custom_call @MoveToHost(%3) : (tensor<16xf32>) -> tensor<16xf32>
    return %4, %5 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

/// An argument stays where it is, also through a view.

// CHECK-LABEL: module @arguments
// CHECK-NOT: hespas_
// CHECK: return
module @arguments {
  func.func @main(%h: tensor<16xf32> {mhlo.memory_kind = "pinned_host"}, %x: tensor<16xf32>) -> (tensor<4x4xf32> {mhlo.memory_kind = "pinned_host"}, tensor<16xf32>) {
    %0 = stablehlo.reshape %h : (tensor<16xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.custom_call @MoveToHost(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.custom_call @MoveToDevice(%x) : (tensor<16xf32>) -> tensor<16xf32>
    return %1, %2 : tensor<4x4xf32>, tensor<16xf32>
  }
}

// -----

/// Two reads of one argument are one copy, and what goes to the host and straight back is not copied back.

// CHECK-LABEL: module @twice
// CHECK: %[[D:.*]] = stablehlo.custom_call @hespas_fetch(%arg0)
// CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[D]], %[[D]]
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[S]]
// CHECK-NEXT: %[[H:.*]] = stablehlo.custom_call @hespas_offload(%[[T]])
// CHECK-NEXT: stablehlo.add %[[S]], %[[T]]
// CHECK-NOT: hespas_
// CHECK: return
module @twice {
  func.func @main(%h: tensor<16xf32> {mhlo.memory_kind = "pinned_host"}) -> (tensor<16xf32>, tensor<16xf32> {mhlo.memory_kind = "pinned_host"}) {
    %0 = stablehlo.custom_call @MoveToDevice(%h) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = stablehlo.custom_call @MoveToDevice(%h) : (tensor<16xf32>) -> tensor<16xf32>
    %2 = stablehlo.add %0, %1 : tensor<16xf32>
    %3 = stablehlo.custom_call @MoveToHost(%2) : (tensor<16xf32>) -> tensor<16xf32>
    %4 = stablehlo.custom_call @MoveToDevice(%3) : (tensor<16xf32>) -> tensor<16xf32>
    %5 = stablehlo.tanh %4 : tensor<16xf32>
    %6 = stablehlo.custom_call @MoveToHost(%5) : (tensor<16xf32>) -> tensor<16xf32>
    %7 = stablehlo.custom_call @MoveToDevice(%6) : (tensor<16xf32>) -> tensor<16xf32>
    %8 = stablehlo.add %4, %7 : tensor<16xf32>
    return %8, %6 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

/// A loop hands on a value of the device and an array of the host, which are in these memories after it. What a call
/// returns is not known, and copied.

// CHECK-LABEL: module @loop
// CHECK: %[[W:.*]]:3 = stablehlo.while
// CHECK: hespas_offload(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK-NOT: hespas_
// CHECK: %[[K:.*]] = stablehlo.custom_call @kernel(
// CHECK-NEXT: %[[F:.*]] = stablehlo.custom_call @hespas_fetch(%[[K]])
// CHECK-NEXT: return %[[W]]#1, %[[W]]#2, %[[F]]
module @loop {
  func.func @main(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<8x16xf32> {mhlo.memory_kind = "pinned_host"}, tensor<16xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<8> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %empty = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %w:3 = stablehlo.while(%k = %i, %c = %x, %kept = %empty) : tensor<i32>, tensor<16xf32>, tensor<8x16xf32>
    cond {
      %lt = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %y = stablehlo.tanh %c : tensor<16xf32>
      %host = stablehlo.custom_call @MoveToHost(%c) : (tensor<16xf32>) -> tensor<16xf32>
      %row = stablehlo.reshape %host : (tensor<16xf32>) -> tensor<1x16xf32>
      %new = stablehlo.dynamic_update_slice %kept, %row, %k, %i : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
      %next = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %next, %y, %new : tensor<i32>, tensor<16xf32>, tensor<8x16xf32>
    }
    %0 = stablehlo.custom_call @MoveToDevice(%w#1) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = stablehlo.custom_call @MoveToHost(%w#2) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.custom_call @kernel(%x) : (tensor<16xf32>) -> tensor<16xf32>
    %3 = stablehlo.custom_call @MoveToDevice(%2) : (tensor<16xf32>) -> tensor<16xf32>
    return %0, %1, %3 : tensor<16xf32>, tensor<8x16xf32>, tensor<16xf32>
  }
}

// -----

/// What a call returned is not known after a loop that only hands it on either, and a copy of a slice stays.

// CHECK-LABEL: module @handed_on
// CHECK: hespas_offload(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK: %[[W:.*]]:2 = stablehlo.while
// CHECK: %[[F:.*]] = stablehlo.custom_call @hespas_fetch(%[[W]]#1)
// CHECK: return %[[F]]
module @handed_on {
  func.func @main(%x: tensor<16xf32>, %kept: tensor<8x16xf32> {mhlo.memory_kind = "pinned_host"}) -> (tensor<16xf32>, tensor<8x16xf32> {mhlo.memory_kind = "pinned_host"}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %part = stablehlo.reshape %x : (tensor<16xf32>) -> tensor<1x16xf32>
    %h = stablehlo.custom_call @hespas_offload(%part, %zero, %zero) : (tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %all = stablehlo.dynamic_update_slice %kept, %h, %zero, %zero : (tensor<8x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<8x16xf32>
    %k = stablehlo.custom_call @kernel(%x) : (tensor<16xf32>) -> tensor<16xf32>
    %w:2 = stablehlo.while(%i = %zero, %c = %k) : tensor<i32>, tensor<16xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %c : tensor<i32>, tensor<16xf32>
    }
    %d = stablehlo.custom_call @MoveToDevice(%w#1) : (tensor<16xf32>) -> tensor<16xf32>
    return %d, %all : tensor<16xf32>, tensor<8x16xf32>
  }
}

// -----

/// Nor is a view of it; a view of a value of the device is on the device.

// CHECK-LABEL: module @views
// CHECK: %[[K:.*]] = stablehlo.custom_call @kernel(
// CHECK-NEXT: %[[V:.*]] = stablehlo.reshape %[[K]]
// CHECK-NEXT: %[[F:.*]] = stablehlo.custom_call @hespas_fetch(%[[V]])
// CHECK-NOT: hespas_
// CHECK: return %[[F]]
module @views {
  func.func @main(%x: tensor<16xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %k = stablehlo.custom_call @kernel(%x) : (tensor<16xf32>) -> tensor<16xf32>
    %0 = stablehlo.reshape %k : (tensor<16xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.custom_call @MoveToDevice(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = stablehlo.tanh %x : tensor<16xf32>
    %2 = stablehlo.reshape %y : (tensor<16xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.custom_call @MoveToDevice(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}
