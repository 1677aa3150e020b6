// RUN: hespas-opt %s --merge-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --merge-products --merge-products --split-input-file | filecheck %s

/// Query, key and value are one product of the weights side by side; what makes the third weight after the
/// first product moves before it.

// CHECK-LABEL: module @qkv
module @qkv {
  // CHECK: %[[V:.*]] = stablehlo.convert %arg3
  // CHECK-NEXT: %[[Q:.*]] = stablehlo.reshape %arg1 : (tensor<32x3x16xbf16>) -> tensor<32x48xbf16>
  // CHECK-NEXT: %[[W:.*]] = stablehlo.concatenate %[[Q]], %arg2, %[[V]], dim = 1
  // CHECK-NEXT: %[[D:.*]] = stablehlo.dot_general %arg0, %[[W]], contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x144xbf16>) -> tensor<64x144xbf16>
  // CHECK-NEXT: %[[A:.*]] = stablehlo.slice %[[D]] [0:64, 0:48]
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[A]] : {{.*}} -> tensor<64x3x16xbf16>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.slice %[[D]] [0:64, 48:96]
  // CHECK-NEXT: %[[C:.*]] = stablehlo.slice %[[D]] [0:64, 96:144]
  // CHECK-NEXT: return %[[R]], %[[B]], %[[C]]
  func.func @main(%x: tensor<64x32xbf16>, %q: tensor<32x3x16xbf16>, %k: tensor<32x48xbf16>, %v: tensor<32x48xf32>) -> (tensor<64x3x16xbf16>, tensor<64x48xbf16>, tensor<64x48xbf16>) {
    %0 = stablehlo.dot_general %x, %q, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x3x16xbf16>) -> tensor<64x3x16xbf16>
    %1 = stablehlo.dot_general %x, %k, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
    %2 = stablehlo.convert %v : (tensor<32x48xf32>) -> tensor<32x48xbf16>
    %3 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
    return %0, %1, %3 : tensor<64x3x16xbf16>, tensor<64x48xbf16>, tensor<64x48xbf16>
  }
}

// -----

/// The shared operand may be the second one, with batches.

// CHECK-LABEL: module @left
module @left {
  // CHECK: %[[X:.*]] = stablehlo.concatenate %arg0, %arg1, dim = 1
  // CHECK-NEXT: %[[D:.*]] = stablehlo.dot_general %[[X]], %arg2, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x24x32xf32>, tensor<4x64x32xf32>) -> tensor<4x24x64xf32>
  // CHECK-NEXT: stablehlo.slice %[[D]] [0:4, 0:8, 0:64]
  // CHECK-NEXT: stablehlo.slice %[[D]] [0:4, 8:24, 0:64]
  func.func @main(%a: tensor<4x8x32xf32>, %b: tensor<4x16x32xf32>, %w: tensor<4x64x32xf32>) -> (tensor<4x8x64xf32>, tensor<4x16x64xf32>) {
    %0 = stablehlo.dot_general %a, %w, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x8x32xf32>, tensor<4x64x32xf32>) -> tensor<4x8x64xf32>
    %1 = stablehlo.dot_general %b, %w, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x16x32xf32>, tensor<4x64x32xf32>) -> tensor<4x16x64xf32>
    return %0, %1 : tensor<4x8x64xf32>, tensor<4x16x64xf32>
  }
}

// -----

/// A product that needs another is not merged with it, but with a later one that needs none of its group.

// CHECK-LABEL: module @needs
module @needs {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %{{.*}} -> tensor<16x32xf32>
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg0, %{{.*}} -> tensor<16x32xf32>
  // CHECK: stablehlo.dot_general %arg0, %{{.*}} -> tensor<16x16xf32>
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %3 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %4 = stablehlo.tanh %2 : tensor<16x16xf32>
    %5 = stablehlo.dot_general %x, %4, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %3, %5 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// What a loop captures is needed, too.

// CHECK-LABEL: module @loop
module @loop {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.while
  // CHECK: stablehlo.dot_general %arg0
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> (tensor<16x16xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1:2 = stablehlo.while(%i = %zero, %v = %w) : tensor<i32>, tensor<16x16xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %a = stablehlo.add %v, %0 : tensor<16x16xf32>
      stablehlo.return %j, %a : tensor<i32>, tensor<16x16xf32>
    }
    %2 = stablehlo.dot_general %x, %1#1, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// Two pairs of products could be merged, but either merge makes the other a circle: one is.

// CHECK-LABEL: module @circle
module @circle {
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg1, %arg3
  // CHECK: %[[G:.*]] = stablehlo.tanh %[[B]]
  // CHECK: %[[W:.*]] = stablehlo.concatenate %arg2, %[[G]]
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %[[W]], {{.*}} -> tensor<64x32xf32>
  // CHECK: stablehlo.dot_general %arg1
  func.func @main(%x: tensor<64x128xf32>, %y: tensor<128x64xf32>, %w: tensor<128x16xf32>, %v: tensor<64x16xf32>) -> (tensor<64x16xf32>, tensor<128x16xf32>) {
    %a1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x16xf32>) -> tensor<64x16xf32>
    %f = stablehlo.tanh %a1 : tensor<64x16xf32>
    %b1 = stablehlo.dot_general %y, %f, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
    %b2 = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
    %g = stablehlo.tanh %b2 : tensor<128x16xf32>
    %a2 = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x16xf32>) -> tensor<64x16xf32>
    return %a2, %b1 : tensor<64x16xf32>, tensor<128x16xf32>
  }
}

// -----

/// Two products of more than 64 MiB each stay apart; a smaller one is merged with the first.

// CHECK-LABEL: module @large
module @large {
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<8192x4352xbf16>
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<8192x4096xbf16>
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<8192x8xbf16>, %a: tensor<8x4096xbf16>, %b: tensor<8x4096xbf16>, %c: tensor<8x256xbf16>) -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<8192x256xbf16>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x4096xbf16>) -> tensor<8192x4096xbf16>
    %1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x4096xbf16>) -> tensor<8192x4096xbf16>
    %2 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x256xbf16>) -> tensor<8192x256xbf16>
    return %0, %1, %2 : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<8192x256xbf16>
  }
}

// -----

/// The sizes of merged products count together.

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<8192x4096xbf16>
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<8192x4096xbf16>
  func.func @main(%x: tensor<8192x8xbf16>, %a: tensor<8x2048xbf16>, %b: tensor<8x2048xbf16>, %c: tensor<8x4096xbf16>) -> (tensor<8192x2048xbf16>, tensor<8192x2048xbf16>, tensor<8192x4096xbf16>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x2048xbf16>) -> tensor<8192x2048xbf16>
    %1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x2048xbf16>) -> tensor<8192x2048xbf16>
    %2 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x4096xbf16>) -> tensor<8192x4096xbf16>
    return %0, %1, %2 : tensor<8192x2048xbf16>, tensor<8192x2048xbf16>, tensor<8192x4096xbf16>
  }
}

// -----

/// Products that all need the first one are merged with each other.

// CHECK-LABEL: module @recurrence
module @recurrence {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<16x32xf32>
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.tanh %0 : tensor<16x16xf32>
    %2 = stablehlo.cosine %0 : tensor<16x16xf32>
    %3 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %4 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %3, %4 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// Each side keeps its dimensions; those behind free ones that become one have other numbers.

// CHECK-LABEL: module @sides
module @sides {
  // CHECK: stablehlo.dot_general %{{.*}}, %arg2, contracting_dims = [1] x [0] : (tensor<24x32xf32>, tensor<32x64xf32>) -> tensor<24x64xf32>
  func.func @main(%a: tensor<8x32xf32>, %b: tensor<16x32xf32>, %w: tensor<32x64xf32>) -> (tensor<8x64xf32>, tensor<16x64xf32>) {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %1 = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    return %0, %1 : tensor<8x64xf32>, tensor<16x64xf32>
  }
}

// -----

// CHECK-LABEL: module @behind
module @behind {
  // CHECK: stablehlo.dot_general %arg0, %{{.*}}, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  func.func @main(%x: tensor<8x32xf32>, %a: tensor<3x4x32xf32>, %b: tensor<5x4x32xf32>) -> (tensor<8x3x4xf32>, tensor<8x5x4xf32>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [2] : (tensor<8x32xf32>, tensor<3x4x32xf32>) -> tensor<8x3x4xf32>
    %1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [2] : (tensor<8x32xf32>, tensor<5x4x32xf32>) -> tensor<8x5x4xf32>
    return %0, %1 : tensor<8x3x4xf32>, tensor<8x5x4xf32>
  }
}

// -----

/// One of the two that are merged must have at most 64 MiB: the first, here of 63.6 MiB, or the second.

// CHECK-LABEL: module @below
module @below {
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<8192x8128xbf16>
  func.func @main(%x: tensor<8192x8xbf16>, %a: tensor<8x4064xbf16>, %b: tensor<8x4064xbf16>) -> (tensor<8192x4064xbf16>, tensor<8192x4064xbf16>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x4064xbf16>) -> tensor<8192x4064xbf16>
    %1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x4064xbf16>) -> tensor<8192x4064xbf16>
    return %0, %1 : tensor<8192x4064xbf16>, tensor<8192x4064xbf16>
  }
}

// -----

// CHECK-LABEL: module @small_first
module @small_first {
  // CHECK: stablehlo.dot_general %arg0, {{.*}} -> tensor<8192x4352xbf16>
  func.func @main(%x: tensor<8192x8xbf16>, %a: tensor<8x256xbf16>, %b: tensor<8x4096xbf16>) -> (tensor<8192x256xbf16>, tensor<8192x4096xbf16>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x256xbf16>) -> tensor<8192x256xbf16>
    %1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<8192x8xbf16>, tensor<8x4096xbf16>) -> tensor<8192x4096xbf16>
    return %0, %1 : tensor<8192x256xbf16>, tensor<8192x4096xbf16>
  }
}
