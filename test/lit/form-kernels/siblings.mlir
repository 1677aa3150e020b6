// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Kernels that read one value share a loop and have a result each; they do not if one needs the other
/// by way of a third, if the loops differ, or if they read different parts.

// CHECK-LABEL: module @loops
module @loops {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: mhlo.return %{{.*}}, %{{.*}} :
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %n = stablehlo.negate %x : tensor<1048576xf32>
    %0 = stablehlo.tanh %n : tensor<1048576xf32>
    %1 = stablehlo.cosine %x : tensor<1048576xf32>
    return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

/// XLA joins others only to a kernel of several ops: two single ones stay,

// CHECK-LABEL: module @single_ops
module @single_ops {
  // CHECK: %[[A:.*]] = stablehlo.tanh %arg0
  // CHECK: %[[B:.*]] = stablehlo.cosine %arg0
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.tanh %x : tensor<1048576xf32>
    %1 = stablehlo.cosine %x : tensor<1048576xf32>
    return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

/// but a reduction counts as several, with its initial value.

// CHECK-LABEL: module @single_reductions
module @single_reductions {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.reduce
  // CHECK: return %[[A]]#0, %[[A]]#1
  func.func @main(%x: tensor<4096x4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %1 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    return %0, %1 : tensor<4096xf32>, tensor<4096xf32>
  }
}

// -----

// CHECK-LABEL: module @path
module @path {
  // CHECK: stablehlo.tanh %arg0
  // CHECK: stablehlo.custom_call
  // CHECK: stablehlo.add
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %0 = stablehlo.tanh %x : tensor<1048576xf32>
    %1 = stablehlo.custom_call @kernel(%0) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %2 = stablehlo.add %1, %x : tensor<1048576xf32>
    return %0, %2 : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

// CHECK-LABEL: module @parts
module @parts {
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.slice
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<524288xf32>, tensor<524288xf32>) {
    %0 = stablehlo.slice %x [0:524288] : (tensor<1048576xf32>) -> tensor<524288xf32>
    %1 = stablehlo.slice %x [524288:1048576] : (tensor<1048576xf32>) -> tensor<524288xf32>
    return %0, %1 : tensor<524288xf32>, tensor<524288xf32>
  }
}

// -----

// CHECK-LABEL: module @heroes
module @heroes {
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.transpose
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<512x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    return %0, %1 : tensor<1024xf32>, tensor<512x1024xf32>
  }
}

// -----

/// A producer that something else reads stays a result of the kernel of its reader.

// CHECK-LABEL: module @producer
module @producer {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"(%arg0)
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.reduce
  // CHECK: stablehlo.custom_call @kernel(%[[F]]#
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<1024x512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.tanh %x : tensor<1024x512xf32>
    %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %1 = stablehlo.custom_call @kernel(%t) : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
    return %0, %1 : tensor<1024xf32>, tensor<1024x512xf32>
  }
}

// -----

/// A single number is read by each.

// CHECK-LABEL: module @number
module @number {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = stablehlo.tanh %x : tensor<f32>
    %1 = stablehlo.cosine %x : tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
}

// -----

/// A reduction of two values, which has two results already, takes more, as compiled by jaxlib 0.12.

// CHECK-LABEL: module @pairs
module @pairs {
  // CHECK: %[[F:.*]]:3 = "mhlo.fusion"(%arg0, %arg1)
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.reduce(%x init: %zero), (%y init: %zero) across dimensions = [1] : (tensor<1024x512xf32>, tensor<1024x512xf32>, tensor<f32>, tensor<f32>) -> (tensor<1024xf32>, tensor<1024xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }
    %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    return %0#0, %0#1, %1 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}

// -----

/// Of ops that are loops by themselves, only elementwise ones can be joined with others.

// CHECK-LABEL: module @windows
module @windows {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024x512xf32>) -> (tensor<1024x510xf32>, tensor<1024x510xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 3>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024x510xf32>
    %1 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 3>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024x510xf32>
    return %0, %1 : tensor<1024x510xf32>, tensor<1024x510xf32>
  }
}

// -----

/// The readers of a product are left alone, as those of all custom kernels of XLA are.

// CHECK-LABEL: module @of_product
module @of_product {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %1 = stablehlo.tanh %0 : tensor<256x256xf32>
    %2 = stablehlo.sine %0 : tensor<256x256xf32>
    return %1, %2 : tensor<256x256xf32>, tensor<256x256xf32>
  }
}

// -----

/// Eight reductions of one value are one kernel although a sort of the first one comes between them.

// CHECK-LABEL: module @many
module @many {
  // CHECK: %[[F:.*]]:8 = "mhlo.fusion"(%arg0)
  // CHECK: "stablehlo.sort"(%[[F]]#
  func.func @main(%x: tensor<4096x512xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
    %n0 = stablehlo.constant dense<0.0> : tensor<f32>
    %r0 = stablehlo.reduce(%x init: %n0) applies stablehlo.add across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %s = "stablehlo.sort"(%r0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %lt = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) : (tensor<4096xf32>) -> tensor<4096xf32>
    %n1 = stablehlo.constant dense<1.0> : tensor<f32>
    %r1 = stablehlo.reduce(%x init: %n1) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n2 = stablehlo.constant dense<2.0> : tensor<f32>
    %r2 = stablehlo.reduce(%x init: %n2) applies stablehlo.minimum across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n3 = stablehlo.constant dense<3.0> : tensor<f32>
    %r3 = stablehlo.reduce(%x init: %n3) applies stablehlo.add across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n4 = stablehlo.constant dense<4.0> : tensor<f32>
    %r4 = stablehlo.reduce(%x init: %n4) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n5 = stablehlo.constant dense<5.0> : tensor<f32>
    %r5 = stablehlo.reduce(%x init: %n5) applies stablehlo.minimum across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n6 = stablehlo.constant dense<6.0> : tensor<f32>
    %r6 = stablehlo.reduce(%x init: %n6) applies stablehlo.add across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n7 = stablehlo.constant dense<7.0> : tensor<f32>
    %r7 = stablehlo.reduce(%x init: %n7) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    %n8 = stablehlo.constant dense<8.0> : tensor<f32>
    %r8 = stablehlo.reduce(%x init: %n8) applies stablehlo.minimum across dimensions = [1] : (tensor<4096x512xf32>, tensor<f32>) -> tensor<4096xf32>
    return %s, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8 : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
  }
}

// -----

/// A window of several values takes no other result.

// CHECK-LABEL: module @window_pairs
module @window_pairs {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024x512xf32>) -> (tensor<1024x512xf32>, tensor<1024x512xf32>, tensor<1024x512xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = "stablehlo.reduce_window"(%x, %y, %zero, %zero) <{window_dimensions = array<i64: 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %s = stablehlo.add %a, %c : tensor<f32>
      %t = stablehlo.maximum %b, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }) : (tensor<1024x512xf32>, tensor<1024x512xf32>, tensor<f32>, tensor<f32>) -> (tensor<1024x512xf32>, tensor<1024x512xf32>)
    %1 = stablehlo.tanh %x : tensor<1024x512xf32>
    return %0#0, %0#1, %1 : tensor<1024x512xf32>, tensor<1024x512xf32>, tensor<1024x512xf32>
  }
}
