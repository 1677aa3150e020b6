// RUN: hespas-opt %s --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// Durations are whole microseconds, with what rounding leaves carried to the next kernel: of three of 0.6 us the second
/// takes none. num_ops has whole nanoseconds, of which a kernel takes one at least; the latest longer one gives what that
/// is too much, so that all take 4,300.

// CHECK: 'tanh' 1us num_ops=600500
// CHECK-NEXT: 'sine' 0us after 1 num_ops=600500
// CHECK-NEXT: 'cosine' 1us after 2 num_ops=600500
// CHECK-NEXT: 'abs' 2us after 3 num_ops=2499500
// CHECK-NEXT: 'negate' 0us after 4 num_ops=1500
module attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 600.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    %1 = stablehlo.sine %0 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 600.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    %2 = stablehlo.cosine %1 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 600.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    %3 = stablehlo.abs %2 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 2500.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    %4 = stablehlo.negate %3 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 0.4 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    return %4 : tensor<4xf32>
  }
}
