// RUN: hespas-opt %s --overlap-transfers --split-input-file | filecheck %s
// RUN: hespas-opt %s --overlap-transfers --overlap-transfers --split-input-file | filecheck %s

/// A copy that reads an array has finished before the one that writes it starts, though the other is needed first.

// CHECK-LABEL: module @written
module @written {
  // CHECK: stablehlo.custom_call @hespas_fetch(%{{.*}}) {hespas.comm = {network = "host"}}
  // CHECK-NEXT: %[[O:.*]] = stablehlo.custom_call @hespas_offload(%{{.*}}) {hespas.comm = {is_async = true, network = "host"}}
  // CHECK: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[O]]
  // CHECK-NEXT: stablehlo.custom_call @reader(%[[W]])
  func.func @main(%x: tensor<1x512xf32>, %a: tensor<8x512xf32>, %i: tensor<i32>) -> (tensor<1x512xf32>, tensor<1x512xf32>) {
    %f = stablehlo.custom_call @hespas_fetch(%a, %i, %i) {hespas.comm = {network = "host"}} : (tensor<8x512xf32>, tensor<i32>, tensor<i32>) -> tensor<1x512xf32>
    %b = stablehlo.custom_call @hespas_offload(%a, %x, %i, %i) {hespas.comm = {network = "host"}} : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
    %y = stablehlo.tanh %x : tensor<1x512xf32>
    %z = stablehlo.custom_call @reader(%b) : (tensor<8x512xf32>) -> tensor<1x512xf32>
    %u = stablehlo.cosine %y : tensor<1x512xf32>
    %v = stablehlo.add %u, %f : tensor<1x512xf32>
    return %v, %z : tensor<1x512xf32>, tensor<1x512xf32>
  }
}

// -----

/// The views that a copy reads move to the front with it, one of another too; what is computed does not.

// CHECK-LABEL: module @views
module @views {
  // CHECK: func.func @main(%[[X:.*]]: tensor<512xf32>, %[[A:.*]]: tensor<8x512xf32>)
  // CHECK-NEXT: %[[FLAT:.*]] = stablehlo.reshape %[[A]]
  // CHECK-NEXT: %[[DEEP:.*]] = stablehlo.reshape %[[FLAT]]
  // CHECK-NEXT: %[[F:.*]] = stablehlo.custom_call @hespas_fetch(%[[DEEP]])
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.cosine
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true} %[[F]]
  func.func @main(%x: tensor<512xf32>, %a: tensor<8x512xf32>) -> (tensor<512xf32>, tensor<4x1024xf32>) {
    %y = stablehlo.tanh %x : tensor<512xf32>
    %flat = stablehlo.reshape %a : (tensor<8x512xf32>) -> tensor<4096xf32>
    %z = stablehlo.cosine %y : tensor<512xf32>
    %deep = stablehlo.reshape %flat : (tensor<4096xf32>) -> tensor<4x1024xf32>
    %f = stablehlo.custom_call @hespas_fetch(%deep) {hespas.comm = {network = "host"}} : (tensor<4x1024xf32>) -> tensor<4x1024xf32>
    return %z, %f : tensor<512xf32>, tensor<4x1024xf32>
  }
}
