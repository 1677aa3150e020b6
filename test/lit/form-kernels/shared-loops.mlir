// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// Kernels that read the result of a call share a loop, as those that read an argument do.

// CHECK-LABEL: module @result
module @result {
  // CHECK: %[[A:.*]] = stablehlo.custom_call @kernel(%arg0)
  // CHECK: %[[B:.*]]:2 = "mhlo.fusion"(%[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[B]]#0, %[[B]]#1
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %c = stablehlo.custom_call @kernel(%x) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %n = stablehlo.negate %c : tensor<1048576xf32>
    %0 = stablehlo.tanh %n : tensor<1048576xf32>
    %1 = stablehlo.cosine %c : tensor<1048576xf32>
    return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

/// XLA adds no result to a concatenation, though this loop has the same size,

// CHECK-LABEL: module @concatenation
module @concatenation {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.concatenate
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kLoop
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.reshape
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<2048x512xf32>) -> (tensor<2048x512xf32>, tensor<2048x512xf32>) {
    %0 = stablehlo.tanh %x : tensor<1024x512xf32>
    %1 = stablehlo.concatenate %0, %x, dim = 0 : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<2048x512xf32>
    %2 = stablehlo.concatenate %x, %x, dim = 1 : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<1024x1024xf32>
    %b = stablehlo.reshape %2 : (tensor<1024x1024xf32>) -> tensor<2048x512xf32>
    %3 = stablehlo.add %b, %y : tensor<2048x512xf32>
    return %1, %3 : tensor<2048x512xf32>, tensor<2048x512xf32>
  }
}

// -----

/// to an update in place,

// CHECK-LABEL: module @update
module @update {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg1, %arg0, %arg3) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg1, %arg2) {{.*}} kLoop
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%w: tensor<16x64xf32>, %r: tensor<1x64xf32>, %y: tensor<16x64xf32>, %i: tensor<i32>) -> (tensor<16x64xf32>, tensor<16x64xf32>) {
    %n = stablehlo.tanh %r : tensor<1x64xf32>
    %0 = stablehlo.dynamic_update_slice %w, %n, %i, %i : (tensor<16x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<16x64xf32>
    %b = stablehlo.broadcast_in_dim %r, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %1 = stablehlo.add %b, %y : tensor<16x64xf32>
    return %0, %1 : tensor<16x64xf32>, tensor<16x64xf32>
  }
}

// -----

/// or to a normalisation of rows.

// CHECK-LABEL: module @row
module @row {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = stablehlo.cosine %arg0
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%x: tensor<64x1024xf32>) -> (tensor<64x1024xf32>, tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x1024xf32>
    %3 = stablehlo.cosine %x : tensor<64x1024xf32>
    return %2, %3 : tensor<64x1024xf32>, tensor<64x1024xf32>
  }
}

// -----

/// A producer of two results is not joined with a reader of one,

// CHECK-LABEL: module @two_results
module @two_results {
  // CHECK: %[[A:.*]]:2 = stablehlo.reduce(%arg0 init: %{{.*}}), (%arg1 init: %{{.*}})
  // CHECK: %[[B:.*]] = stablehlo.tanh %[[A]]#0
  // CHECK: return %[[A]]#0, %[[A]]#1, %[[B]]
  func.func @main(%x: tensor<1024x24xf32>, %y: tensor<1024x24xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.reduce(%x init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<1024x24xf32>, tensor<1024x24xf32>, tensor<f32>, tensor<f32>) -> (tensor<1024xf32>, tensor<1024xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }
    %1 = stablehlo.tanh %0#0 : tensor<1024xf32>
    return %0#0, %0#1, %1 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// nor is one that is no loop.

// CHECK-LABEL: module @transposed
module @transposed {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg0
  // CHECK: %[[B:.*]] = stablehlo.tanh %[[A]]
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    %1 = stablehlo.tanh %0 : tensor<512x1024xf32>
    return %0, %1 : tensor<512x1024xf32>, tensor<512x1024xf32>
  }
}

// -----

/// A reader that fusion refused is joined with its producer if a call reads that, too, even by a view;

// CHECK-LABEL: module @viewed
module @viewed {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = stablehlo.reshape %[[A]]#1
  // CHECK: %[[C:.*]] = stablehlo.custom_call @kernel(%[[B]])
  // CHECK: return %[[A]]#0, %[[C]]
  func.func @main(%x: tensor<1024x64x24xf32>) -> (tensor<1024xf32>, tensor<65536xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<1024x64x24xf32>, tensor<f32>) -> tensor<1024x64xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = stablehlo.reshape %0 : (tensor<1024x64xf32>) -> tensor<65536xf32>
    %3 = stablehlo.custom_call @kernel(%2) : (tensor<65536xf32>) -> tensor<65536xf32>
    return %1, %3 : tensor<1024xf32>, tensor<65536xf32>
  }
}

// -----

/// an only reader is not,

// CHECK-LABEL: module @only_reader
module @only_reader {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: %[[B:.*]] = stablehlo.reduce(%[[A]] init: %{{.*}}) applies stablehlo.maximum
  // CHECK: return %[[B]]
  func.func @main(%x: tensor<1024x64x24xf32>) -> (tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<1024x64x24xf32>, tensor<f32>) -> tensor<1024x64xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<1024xf32>
    return %1 : tensor<1024xf32>
  }
}

// -----

/// unless it has several results: the producer is none of them.

// CHECK-LABEL: module @only_reader_of_several
module @only_reader_of_several {
  // CHECK: %[[A:.*]] = stablehlo.custom_call @kernel(%arg1)
  // CHECK: %[[B:.*]]:2 = "mhlo.fusion"(%arg0, %[[A]]) {{.*}} kInput
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.add
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.tanh
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[B]]#0, %[[B]]#1
  func.func @main(%x: tensor<2048x64x24xf32>, %y: tensor<2048x64xf32>) -> (tensor<2048xf32>, tensor<2048x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2048x64x24xf32>, tensor<f32>) -> tensor<2048x64xf32>
    %c = stablehlo.custom_call @kernel(%y) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
    %a = stablehlo.add %0, %c : tensor<2048x64xf32>
    %1 = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<2048x64xf32>, tensor<f32>) -> tensor<2048xf32>
    %2 = stablehlo.tanh %c : tensor<2048x64xf32>
    return %1, %2 : tensor<2048xf32>, tensor<2048x64xf32>
  }
}

// -----

/// Readers that take no result, or have another loop, are not joined with their producer.

// CHECK-LABEL: module @producer_of_concatenation
module @producer_of_concatenation {
  // CHECK: %[[A:.*]] = stablehlo.tanh %arg0
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg1) {{.*}} kInput
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.concatenate
  // CHECK: {hespas.kernel = {kind = "copy"}}
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%x: tensor<2048xf32>, %y: tensor<1024xf32>) -> (tensor<2048xf32>, tensor<2048xf32>) {
    %0 = stablehlo.tanh %x : tensor<2048xf32>
    %1 = stablehlo.slice %0 [0:1024] : (tensor<2048xf32>) -> tensor<1024xf32>
    %2 = stablehlo.concatenate %1, %y, dim = 0 : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<2048xf32>
    return %0, %2 : tensor<2048xf32>, tensor<2048xf32>
  }
}

// -----

// CHECK-LABEL: module @producer_of_part
module @producer_of_part {
  // CHECK: %[[A:.*]] = stablehlo.tanh %arg0
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%x: tensor<2048xf32>) -> (tensor<2048xf32>, tensor<1024xf32>) {
    %0 = stablehlo.tanh %x : tensor<2048xf32>
    %1 = stablehlo.slice %0 [0:1024] : (tensor<2048xf32>) -> tensor<1024xf32>
    %2 = stablehlo.cosine %1 : tensor<1024xf32>
    return %0, %2 : tensor<2048xf32>, tensor<1024xf32>
  }
}

// -----

/// Of two readers that save the same time the first is joined.

// CHECK-LABEL: module @equal_gain
module @equal_gain {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.reduce
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = stablehlo.reduce(%[[A]]#1 init: %{{.*}}) applies stablehlo.add
  // CHECK: return %[[A]]#1, %[[A]]#0, %[[B]]
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024x512xf32>, tensor<1024xf32>, tensor<512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.tanh %x : tensor<1024x512xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    return %0, %1, %2 : tensor<1024x512xf32>, tensor<1024xf32>, tensor<512xf32>
  }
}

// -----

/// What reads one of two values of a joined kernel is joined, too.

// CHECK-LABEL: module @chain
module @chain {
  // CHECK: %[[A:.*]]:3 = "mhlo.fusion"(%arg0, %arg1) {{.*}} kLoop
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.add
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]]#2, %[[A]]#0, %[[A]]#1
  func.func @main(%x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.tanh %x : tensor<1048576xf32>
    %n = stablehlo.negate %y : tensor<1048576xf32>
    %1 = stablehlo.add %x, %n : tensor<1048576xf32>
    %2 = stablehlo.cosine %y : tensor<1048576xf32>
    return %0, %1, %2 : tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

/// A path through a joined kernel counts: the sum needs the first op by way of the cosine.

// CHECK-LABEL: module @path_through_joined
module @path_through_joined {
  // CHECK: %[[A:.*]] = stablehlo.tanh %arg0
  // CHECK: %[[B:.*]] = stablehlo.custom_call @kernel(%[[A]])
  // CHECK: %[[C:.*]]:2 = "mhlo.fusion"(%[[B]]) {{.*}} kLoop
  // CHECK: stablehlo.sine
  // CHECK: stablehlo.cosine
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[D:.*]] = "mhlo.fusion"(%[[C]]#1, %[[A]]) {{.*}} kLoop
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]], %[[C]]#0, %[[C]]#1, %[[D]]
  func.func @main(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<2048xf32>, tensor<2048xf32>, tensor<1024xf32>) {
    %0 = stablehlo.tanh %x : tensor<1024xf32>
    %c = stablehlo.custom_call @kernel(%0) : (tensor<1024xf32>) -> tensor<2048xf32>
    %n = stablehlo.negate %c : tensor<2048xf32>
    %1 = stablehlo.sine %n : tensor<2048xf32>
    %2 = stablehlo.cosine %c : tensor<2048xf32>
    %s = stablehlo.slice %2 [0:1024] : (tensor<2048xf32>) -> tensor<1024xf32>
    %3 = stablehlo.add %0, %s : tensor<1024xf32>
    return %0, %1, %2, %3 : tensor<1024xf32>, tensor<2048xf32>, tensor<2048xf32>, tensor<1024xf32>
  }
}

// -----

/// The kernels read the same elements if one of those that were joined before reads them all.

// CHECK-LABEL: module @joined_reads
module @joined_reads {
  // CHECK: %[[A:.*]]:3 = "mhlo.fusion"(%arg1, %arg2, %arg0, %arg3) {{.*}} kLoop
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.add
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: return %[[A]]#0, %[[A]]#1, %[[A]]#2
  func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>, %z: tensor<512xf32>, %w: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %0 = stablehlo.slice %y [0:512] : (tensor<1024xf32>) -> tensor<512xf32>
    %1 = stablehlo.concatenate %0, %z, dim = 0 : (tensor<512xf32>, tensor<512xf32>) -> tensor<1024xf32>
    %2 = stablehlo.add %x, %1 : tensor<1024xf32>
    %3 = stablehlo.multiply %x, %y : tensor<1024xf32>
    %4 = stablehlo.slice %y [512:1024] : (tensor<1024xf32>) -> tensor<512xf32>
    %5 = stablehlo.concatenate %4, %z, dim = 0 : (tensor<512xf32>, tensor<512xf32>) -> tensor<1024xf32>
    %6 = stablehlo.subtract %w, %5 : tensor<1024xf32>
    return %2, %3, %6 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// Elementwise readers with several results compute the producer once for all of them.

// CHECK-LABEL: module @elementwise_results
module @elementwise_results {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0, %arg1) {{.*}} kLoop
  // CHECK-COUNT-1: stablehlo.tanh
  // CHECK-NOT: mhlo.fusion
  // CHECK: return %[[A]]#0, %[[A]]#1
  func.func @main(%x: tensor<8192x4096xf32>, %y: tensor<8192x4096xf32>) -> (tensor<8192x4096xf32>, tensor<8192x4096xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<8192x4096xf32>
    %1 = stablehlo.tanh %0 : tensor<8192x4096xf32>
    %2 = stablehlo.multiply %1, %y : tensor<8192x4096xf32>
    %3 = stablehlo.negate %2 : tensor<8192x4096xf32>
    %4 = stablehlo.subtract %1, %x : tensor<8192x4096xf32>
    %5 = stablehlo.negate %4 : tensor<8192x4096xf32>
    return %3, %5 : tensor<8192x4096xf32>, tensor<8192x4096xf32>
  }
}

// -----

/// Kernels that read a value are joined in the order in which the results need them, two sums in one. The first sum is
/// joined with one that the tangent needs: they do not share its loop. If the tangent is the first result, they do.
/// (XLA of jaxlib 0.12.0.1.)

// CHECK-LABEL: module @sum_first
module @sum_first {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"{{.*}} kInput
  // CHECK: %[[B:.*]] = "mhlo.fusion"{{.*}} kInput
  // CHECK: %[[C:.*]]:2 = "mhlo.fusion"({{.*}}%[[A]]#1{{.*}}) {{.*}} kInput
  // CHECK: return %[[A]]#0, %[[C]]#0, %[[C]]#1
  func.func @main(%x: tensor<128x128x1024xf32>, %v: tensor<1024xf32>, %w: tensor<1024xf32>) -> (tensor<128x1024xf32>, tensor<128x128x1024xf32>, tensor<128x1024xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b1 = stablehlo.broadcast_in_dim %v, dims = [2] : (tensor<1024xf32>) -> tensor<128x128x1024xf32>
    %y1 = stablehlo.multiply %x, %b1 : tensor<128x128x1024xf32>
    %r1 = stablehlo.reduce(%y1 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %b2 = stablehlo.broadcast_in_dim %w, dims = [2] : (tensor<1024xf32>) -> tensor<128x128x1024xf32>
    %y2 = stablehlo.add %x, %b2 : tensor<128x128x1024xf32>
    %r2 = stablehlo.reduce(%y2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %y3 = stablehlo.abs %x : tensor<128x128x1024xf32>
    %r3 = stablehlo.reduce(%y3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %y4 = stablehlo.multiply %x, %x : tensor<128x128x1024xf32>
    %r4 = stablehlo.reduce(%y4 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %b3 = stablehlo.broadcast_in_dim %r3, dims = [0, 2] : (tensor<128x1024xf32>) -> tensor<128x128x1024xf32>
    %b4 = stablehlo.broadcast_in_dim %r4, dims = [0, 2] : (tensor<128x1024xf32>) -> tensor<128x128x1024xf32>
    %p = stablehlo.multiply %x, %b3 : tensor<128x128x1024xf32>
    %s = stablehlo.add %p, %b4 : tensor<128x128x1024xf32>
    %d = stablehlo.tanh %s : tensor<128x128x1024xf32>
    return %r1, %d, %r2 : tensor<128x1024xf32>, tensor<128x128x1024xf32>, tensor<128x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @tangent_first
module @tangent_first {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"{{.*}} kInput
  // CHECK: %[[C:.*]]:3 = "mhlo.fusion"({{.*}}%[[A]]#1{{.*}}) {{.*}} kInput
  // CHECK: return %[[C]]#0, %[[C]]#1, %[[C]]#2
  func.func @main(%x: tensor<128x128x1024xf32>, %v: tensor<1024xf32>, %w: tensor<1024xf32>) -> (tensor<128x128x1024xf32>, tensor<128x1024xf32>, tensor<128x1024xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %b1 = stablehlo.broadcast_in_dim %v, dims = [2] : (tensor<1024xf32>) -> tensor<128x128x1024xf32>
    %y1 = stablehlo.multiply %x, %b1 : tensor<128x128x1024xf32>
    %r1 = stablehlo.reduce(%y1 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %b2 = stablehlo.broadcast_in_dim %w, dims = [2] : (tensor<1024xf32>) -> tensor<128x128x1024xf32>
    %y2 = stablehlo.add %x, %b2 : tensor<128x128x1024xf32>
    %r2 = stablehlo.reduce(%y2 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %y3 = stablehlo.abs %x : tensor<128x128x1024xf32>
    %r3 = stablehlo.reduce(%y3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %y4 = stablehlo.multiply %x, %x : tensor<128x128x1024xf32>
    %r4 = stablehlo.reduce(%y4 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %b3 = stablehlo.broadcast_in_dim %r3, dims = [0, 2] : (tensor<128x1024xf32>) -> tensor<128x128x1024xf32>
    %b4 = stablehlo.broadcast_in_dim %r4, dims = [0, 2] : (tensor<128x1024xf32>) -> tensor<128x128x1024xf32>
    %p = stablehlo.multiply %x, %b3 : tensor<128x128x1024xf32>
    %s = stablehlo.add %p, %b4 : tensor<128x128x1024xf32>
    %d = stablehlo.tanh %s : tensor<128x128x1024xf32>
    return %d, %r1, %r2 : tensor<128x128x1024xf32>, tensor<128x1024xf32>, tensor<128x1024xf32>
  }
}
