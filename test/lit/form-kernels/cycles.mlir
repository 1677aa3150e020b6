// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Each element is read by 32 windows. What takes many clock cycles, by XLA's table of each op, is not computed
/// for each of them: one of these ops, or three additions or subtractions.

// CHECK-LABEL: module @expensive
module @expensive {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.add
  // CHECK: stablehlo.add
  // CHECK: stablehlo.add
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[B:.*]] = "stablehlo.reduce_window"(%[[A]], %{{.*}})
  // CHECK: %[[C:.*]] = "mhlo.fusion"(%arg1) {{.*}} kLoop
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: %[[D:.*]] = "stablehlo.reduce_window"(%[[C]], %{{.*}})
  // CHECK: %[[E:.*]] = stablehlo.divide %arg2, %arg2
  // CHECK: %[[F:.*]] = "stablehlo.reduce_window"(%[[E]], %{{.*}})
  // CHECK: %[[G:.*]] = stablehlo.exponential %arg3
  // CHECK: %[[H:.*]] = "stablehlo.reduce_window"(%[[G]], %{{.*}})
  // CHECK: %[[I:.*]] = stablehlo.log %arg4
  // CHECK: %[[J:.*]] = "stablehlo.reduce_window"(%[[I]], %{{.*}})
  // CHECK: %[[K:.*]] = stablehlo.rsqrt %arg5
  // CHECK: %[[L:.*]] = "stablehlo.reduce_window"(%[[K]], %{{.*}})
  // CHECK: %[[M:.*]] = stablehlo.sqrt %arg6
  // CHECK: %[[N:.*]] = "stablehlo.reduce_window"(%[[M]], %{{.*}})
  // CHECK: %[[O:.*]] = stablehlo.tanh %arg7
  // CHECK: %[[P:.*]] = "stablehlo.reduce_window"(%[[O]], %{{.*}})
  // CHECK: %[[Q:.*]] = stablehlo.power %arg8, %arg8
  // CHECK: %[[R:.*]] = "stablehlo.reduce_window"(%[[Q]], %{{.*}})
  // CHECK: %[[S:.*]] = stablehlo.logistic %arg9
  // CHECK: %[[T:.*]] = "stablehlo.reduce_window"(%[[S]], %{{.*}})
  // CHECK: %[[U:.*]] = stablehlo.sine %arg10
  // CHECK: %[[V:.*]] = "stablehlo.reduce_window"(%[[U]], %{{.*}})
  // CHECK: %[[W:.*]] = stablehlo.cosine %arg11
  // CHECK: %[[X:.*]] = "stablehlo.reduce_window"(%[[W]], %{{.*}})
  // CHECK: %[[Y:.*]] = stablehlo.tan %arg12
  // CHECK: %[[Z:.*]] = "stablehlo.reduce_window"(%[[Y]], %{{.*}})
  // CHECK: %[[V0:.*]] = stablehlo.cbrt %arg13
  // CHECK: %[[V1:.*]] = "stablehlo.reduce_window"(%[[V0]], %{{.*}})
  // CHECK: %[[V2:.*]] = stablehlo.exponential_minus_one %arg14
  // CHECK: %[[V3:.*]] = "stablehlo.reduce_window"(%[[V2]], %{{.*}})
  // CHECK: %[[V4:.*]] = stablehlo.log_plus_one %arg15
  // CHECK: %[[V5:.*]] = "stablehlo.reduce_window"(%[[V4]], %{{.*}})
  // CHECK: %[[V6:.*]] = stablehlo.atan2 %arg16, %arg16
  // CHECK: %[[V7:.*]] = "stablehlo.reduce_window"(%[[V6]], %{{.*}})
  // CHECK: %[[V8:.*]] = stablehlo.remainder %arg17, %arg17
  // CHECK: %[[V9:.*]] = "stablehlo.reduce_window"(%[[V8]], %{{.*}})
  // CHECK: %[[V10:.*]] = mhlo.erf %arg18
  // CHECK: %[[V11:.*]] = "stablehlo.reduce_window"(%[[V10]], %{{.*}})
  // CHECK: return %[[B]], %[[D]], %[[F]], %[[H]], %[[J]], %[[L]], %[[N]], %[[P]], %[[R]], %[[T]], %[[V]], %[[X]], %[[Z]], %[[V1]], %[[V3]], %[[V5]], %[[V7]], %[[V9]], %[[V11]]
  func.func @main(%a0: tensor<1024x1055xf32>, %a1: tensor<1024x1055xf32>, %a2: tensor<1024x1055xf32>, %a3: tensor<1024x1055xf32>, %a4: tensor<1024x1055xf32>, %a5: tensor<1024x1055xf32>, %a6: tensor<1024x1055xf32>, %a7: tensor<1024x1055xf32>, %a8: tensor<1024x1055xf32>, %a9: tensor<1024x1055xf32>, %a10: tensor<1024x1055xf32>, %a11: tensor<1024x1055xf32>, %a12: tensor<1024x1055xf32>, %a13: tensor<1024x1055xf32>, %a14: tensor<1024x1055xf32>, %a15: tensor<1024x1055xf32>, %a16: tensor<1024x1055xf32>, %a17: tensor<1024x1055xf32>, %a18: tensor<1024x1055xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %v0_0 = stablehlo.add %a0, %a0 : tensor<1024x1055xf32>
    %v0_1 = stablehlo.add %v0_0, %a0 : tensor<1024x1055xf32>
    %v0_2 = stablehlo.add %v0_1, %a0 : tensor<1024x1055xf32>
    %w0 = "stablehlo.reduce_window"(%v0_2, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v1_0 = stablehlo.subtract %a1, %a1 : tensor<1024x1055xf32>
    %v1_1 = stablehlo.subtract %v1_0, %a1 : tensor<1024x1055xf32>
    %v1_2 = stablehlo.subtract %v1_1, %a1 : tensor<1024x1055xf32>
    %w1 = "stablehlo.reduce_window"(%v1_2, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v2 = stablehlo.divide %a2, %a2 : tensor<1024x1055xf32>
    %w2 = "stablehlo.reduce_window"(%v2, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v3 = stablehlo.exponential %a3 : tensor<1024x1055xf32>
    %w3 = "stablehlo.reduce_window"(%v3, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v4 = stablehlo.log %a4 : tensor<1024x1055xf32>
    %w4 = "stablehlo.reduce_window"(%v4, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v5 = stablehlo.rsqrt %a5 : tensor<1024x1055xf32>
    %w5 = "stablehlo.reduce_window"(%v5, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v6 = stablehlo.sqrt %a6 : tensor<1024x1055xf32>
    %w6 = "stablehlo.reduce_window"(%v6, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v7 = stablehlo.tanh %a7 : tensor<1024x1055xf32>
    %w7 = "stablehlo.reduce_window"(%v7, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v8 = stablehlo.power %a8, %a8 : tensor<1024x1055xf32>
    %w8 = "stablehlo.reduce_window"(%v8, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v9 = stablehlo.logistic %a9 : tensor<1024x1055xf32>
    %w9 = "stablehlo.reduce_window"(%v9, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v10 = stablehlo.sine %a10 : tensor<1024x1055xf32>
    %w10 = "stablehlo.reduce_window"(%v10, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v11 = stablehlo.cosine %a11 : tensor<1024x1055xf32>
    %w11 = "stablehlo.reduce_window"(%v11, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v12 = stablehlo.tan %a12 : tensor<1024x1055xf32>
    %w12 = "stablehlo.reduce_window"(%v12, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v13 = stablehlo.cbrt %a13 : tensor<1024x1055xf32>
    %w13 = "stablehlo.reduce_window"(%v13, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v14 = stablehlo.exponential_minus_one %a14 : tensor<1024x1055xf32>
    %w14 = "stablehlo.reduce_window"(%v14, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v15 = stablehlo.log_plus_one %a15 : tensor<1024x1055xf32>
    %w15 = "stablehlo.reduce_window"(%v15, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v16 = stablehlo.atan2 %a16, %a16 : tensor<1024x1055xf32>
    %w16 = "stablehlo.reduce_window"(%v16, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v17 = stablehlo.remainder %a17, %a17 : tensor<1024x1055xf32>
    %w17 = "stablehlo.reduce_window"(%v17, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v18 = mhlo.erf %a18 : tensor<1024x1055xf32>
    %w18 = "stablehlo.reduce_window"(%v18, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    return %w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7, %w8, %w9, %w10, %w11, %w12, %w13, %w14, %w15, %w16, %w17, %w18 : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}

// -----

/// Three ops with the usual cycles are.

// CHECK-LABEL: module @cheap
module @cheap {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.negate
  // CHECK: stablehlo.reduce_window
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg1) {{.*}} kLoop
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.reduce_window
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]], %[[B]]
  func.func @main(%a0: tensor<1024x1055xf32>, %a1: tensor<1024x1055xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %v0_0 = stablehlo.negate %a0 : tensor<1024x1055xf32>
    %v0_1 = stablehlo.negate %v0_0 : tensor<1024x1055xf32>
    %v0_2 = stablehlo.negate %v0_1 : tensor<1024x1055xf32>
    %w0 = "stablehlo.reduce_window"(%v0_2, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v1_0 = stablehlo.multiply %a1, %a1 : tensor<1024x1055xf32>
    %v1_1 = stablehlo.multiply %v1_0, %a1 : tensor<1024x1055xf32>
    %v1_2 = stablehlo.multiply %v1_1, %a1 : tensor<1024x1055xf32>
    %w1 = "stablehlo.reduce_window"(%v1_2, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    return %w0, %w1 : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}

// -----

/// What an op takes depends on the type, as in XLA's table: an exponential in f32 is computed once and
/// written, one in bf16, which the table does not list, again for each reduction.

// CHECK-LABEL: module @exponential_f32
module @exponential_f32 {
  // CHECK-COUNT-1: stablehlo.exponential
  // CHECK-NOT: stablehlo.exponential
  func.func @main(%x: tensor<4096x4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.exponential %x : tensor<4096x4096xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    return %1, %2 : tensor<4096xf32>, tensor<4096xf32>
  }
}

// -----

// CHECK-LABEL: module @exponential_bf16
module @exponential_bf16 {
  // CHECK-COUNT-2: stablehlo.exponential
  func.func @main(%x: tensor<4096x4096xbf16>) -> (tensor<4096xbf16>, tensor<4096xbf16>) {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.exponential %x : tensor<4096x4096xbf16>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xbf16>, tensor<bf16>) -> tensor<4096xbf16>
    %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4096x4096xbf16>, tensor<bf16>) -> tensor<4096xbf16>
    return %1, %2 : tensor<4096xbf16>, tensor<4096xbf16>
  }
}

// -----

/// A division of integers takes many cycles, an addition few.

// CHECK-LABEL: module @integers
module @integers {
  // CHECK-COUNT-1: stablehlo.divide
  // CHECK-COUNT-2: stablehlo.add %
  // CHECK-NOT: stablehlo.divide
  func.func @main(%x: tensor<4096x4096xi32>, %y: tensor<4096x4096xi32>) -> (tensor<4096xi32>, tensor<4096xi32>, tensor<4096xi32>, tensor<4096xi32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.divide %x, %x : tensor<4096x4096xi32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xi32>, tensor<i32>) -> tensor<4096xi32>
    %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4096x4096xi32>, tensor<i32>) -> tensor<4096xi32>
    %3 = stablehlo.add %y, %y : tensor<4096x4096xi32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xi32>, tensor<i32>) -> tensor<4096xi32>
    %5 = stablehlo.reduce(%3 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4096x4096xi32>, tensor<i32>) -> tensor<4096xi32>
    return %1, %2, %4, %5 : tensor<4096xi32>, tensor<4096xi32>, tensor<4096xi32>, tensor<4096xi32>
  }
}
