// RUN: hespas-opt %s --refresh-costs --split-input-file 2>&1 | filecheck %s

/// The memory that another version has written on a module that is not prepared is computed again, without the digest that
/// it lacks. A function without a body reads its operands and writes its results.

// CHECK: the program changed after memory-annotate: hespas.memory is computed again
// CHECK: module @declaration attributes {hespas.memory = {argument_bytes = 4096 : i64, constant_bytes = 0 : i64, live_bytes = 8192 : i64
module @declaration attributes {hespas.memory = {argument_bytes = 1 : i64, constant_bytes = 0 : i64, live_bytes = 1 : i64, op = "func.return", peak_bytes = 1 : i64, points = 1 : i64, result_bytes = 0 : i64, temporary_bytes = 0 : i64, timeline_bytes = array<i64: 1>, timeline_points = array<i64: 0>}} {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = call @elsewhere(%x) {hespas.cost = {bound = "memory", estimator = "other", flops = 0 : i64, latency_ns = 1.0 : f64, read_bytes = 4096 : i64, write_bytes = 4096 : i64}} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }
  func.func private @elsewhere(tensor<1024xf32>) -> tensor<1024xf32>
}

// -----

/// A result without a size takes no donated buffer.

// CHECK: module @view attributes {hespas.memory = {argument_bytes = 8196 : i64, constant_bytes = 0 : i64, live_bytes = 8196 : i64
module @view attributes {hespas.memory = {argument_bytes = 1 : i64, constant_bytes = 0 : i64, live_bytes = 1 : i64, op = "func.return", peak_bytes = 1 : i64, points = 1 : i64, result_bytes = 0 : i64, temporary_bytes = 0 : i64, timeline_bytes = array<i64: 1>, timeline_points = array<i64: 0>}} {
  func.func @main(%x: tensor<1024xf32> {jax.buffer_donor = true}, %s: tensor<1xi32>) -> tensor<?xf32> {
    %0 = stablehlo.dynamic_reshape %x, %s : (tensor<1024xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
