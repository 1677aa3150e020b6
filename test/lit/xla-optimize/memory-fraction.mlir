// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,stage=scheduled | filecheck %s --check-prefix=ROOM
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,stage=scheduled,memory-fraction=0.00003 | filecheck %s --check-prefix=TIGHT
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,stage=scheduled,memory-fraction=0.00003,disable=rematerialization | filecheck %s --check-prefix=ROOM
// RUN: not hespas-opt %s --xla-optimize=target=H100_80GB,memory-fraction=75 2>&1 | filecheck %s --check-prefix=SHARE
// REQUIRES: gpu-compiler

/// Six layers and their gradients keep 512 kB each. Where XLA may use 2.5 MB, it computes the
/// products of the forward pass again, and says which.

// ROOM: compile_memory_limit_bytes
// ROOM-NOT: hespas.recomputed
// TIGHT: compile_memory_limit_bytes = 2548289
// TIGHT: hespas.recomputed = "{{[a-z_.0-9]+}}"
// SHARE: error: xla-optimize: option 'memory-fraction' is 75; give a share of the memory, more than 0 and at most 1
func.func public @main(%x: tensor<1024x128xf32>, %w: tensor<128x128xf32>) -> tensor<1024x128xf32> {
  %p0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %h0 = stablehlo.tanh %p0 : tensor<1024x128xf32>
  %p1 = stablehlo.dot_general %h0, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %h1 = stablehlo.tanh %p1 : tensor<1024x128xf32>
  %p2 = stablehlo.dot_general %h1, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %h2 = stablehlo.tanh %p2 : tensor<1024x128xf32>
  %p3 = stablehlo.dot_general %h2, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %h3 = stablehlo.tanh %p3 : tensor<1024x128xf32>
  %p4 = stablehlo.dot_general %h3, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %h4 = stablehlo.tanh %p4 : tensor<1024x128xf32>
  %p5 = stablehlo.dot_general %h4, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %h5 = stablehlo.tanh %p5 : tensor<1024x128xf32>
  %m5 = stablehlo.multiply %h5, %h5 : tensor<1024x128xf32>
  %g5 = stablehlo.dot_general %m5, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %m4 = stablehlo.multiply %g5, %h4 : tensor<1024x128xf32>
  %g4 = stablehlo.dot_general %m4, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %m3 = stablehlo.multiply %g4, %h3 : tensor<1024x128xf32>
  %g3 = stablehlo.dot_general %m3, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %m2 = stablehlo.multiply %g3, %h2 : tensor<1024x128xf32>
  %g2 = stablehlo.dot_general %m2, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %m1 = stablehlo.multiply %g2, %h1 : tensor<1024x128xf32>
  %g1 = stablehlo.dot_general %m1, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  %m0 = stablehlo.multiply %g1, %h0 : tensor<1024x128xf32>
  %g0 = stablehlo.dot_general %m0, %w, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x128xf32>) -> tensor<1024x128xf32>
  return %g0 : tensor<1024x128xf32>
}
