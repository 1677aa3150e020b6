// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// Each element is read by 32 windows. What takes many clock cycles, by XLA's table of the GPU, is not computed
/// for each of them: one of these ops, or eight additions or subtractions.

// CHECK-LABEL: module @expensive
module @expensive {
  // CHECK: %[[V0:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: "stablehlo.reduce_window"(%[[V0]]
  // CHECK: %[[V1:.*]] = "mhlo.fusion"(%arg1) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "loop"}}
  // CHECK: "stablehlo.reduce_window"(%[[V1]]
  // CHECK: %[[V2:.*]] = stablehlo.log %arg2 :
  // CHECK: "stablehlo.reduce_window"(%[[V2]]
  // CHECK: %[[V3:.*]] = stablehlo.rsqrt %arg3 :
  // CHECK: "stablehlo.reduce_window"(%[[V3]]
  // CHECK: %[[V4:.*]] = stablehlo.sqrt %arg4 :
  // CHECK: "stablehlo.reduce_window"(%[[V4]]
  // CHECK: %[[V5:.*]] = stablehlo.tanh %arg5 :
  // CHECK: "stablehlo.reduce_window"(%[[V5]]
  // CHECK: %[[V6:.*]] = "mhlo.fusion"(%arg6)
  // CHECK: stablehlo.power
  // CHECK-NEXT: mhlo.return
  // CHECK: "stablehlo.reduce_window"(%[[V6]]
  // CHECK: %[[V7:.*]] = stablehlo.logistic %arg7 :
  // CHECK: "stablehlo.reduce_window"(%[[V7]]
  // CHECK: %[[V8:.*]] = stablehlo.sine %arg8 :
  // CHECK: "stablehlo.reduce_window"(%[[V8]]
  // CHECK: %[[V9:.*]] = stablehlo.cosine %arg9 :
  // CHECK: "stablehlo.reduce_window"(%[[V9]]
  // CHECK: %[[V10:.*]] = stablehlo.cbrt %arg10 :
  // CHECK: "stablehlo.reduce_window"(%[[V10]]
  // CHECK: %[[V11:.*]] = stablehlo.exponential_minus_one %arg11 :
  // CHECK: "stablehlo.reduce_window"(%[[V11]]
  // CHECK: %[[V12:.*]] = stablehlo.log_plus_one %arg12 :
  // CHECK: "stablehlo.reduce_window"(%[[V12]]
  // CHECK: %[[V13:.*]] = "mhlo.fusion"(%arg13)
  // CHECK: stablehlo.atan2
  // CHECK-NEXT: mhlo.return
  // CHECK: "stablehlo.reduce_window"(%[[V13]]
  // CHECK: %[[V14:.*]] = stablehlo.exponential %arg14 :
  // CHECK: "stablehlo.reduce_window"(%[[V14]]
  func.func @main(%a0: tensor<1024x1055xf32>, %a1: tensor<1024x1055xf32>, %a2: tensor<1024x1055xf32>, %a3: tensor<1024x1055xf32>, %a4: tensor<1024x1055xf32>, %a5: tensor<1024x1055xf32>, %a6: tensor<1024x1055xf32>, %a7: tensor<1024x1055xf32>, %a8: tensor<1024x1055xf32>, %a9: tensor<1024x1055xf32>, %a10: tensor<1024x1055xf32>, %a11: tensor<1024x1055xf32>, %a12: tensor<1024x1055xf32>, %a13: tensor<1024x1055xf32>, %a14: tensor<1024x1055xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %v0_0 = stablehlo.add %a0, %a0 : tensor<1024x1055xf32>
    %v0_1 = stablehlo.add %v0_0, %v0_0 : tensor<1024x1055xf32>
    %v0_2 = stablehlo.add %v0_1, %v0_1 : tensor<1024x1055xf32>
    %v0_3 = stablehlo.add %v0_2, %v0_2 : tensor<1024x1055xf32>
    %v0_4 = stablehlo.add %v0_3, %v0_3 : tensor<1024x1055xf32>
    %v0_5 = stablehlo.add %v0_4, %v0_4 : tensor<1024x1055xf32>
    %v0_6 = stablehlo.add %v0_5, %v0_5 : tensor<1024x1055xf32>
    %v0_7 = stablehlo.add %v0_6, %v0_6 : tensor<1024x1055xf32>
    %w0 = "stablehlo.reduce_window"(%v0_7, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v1_0 = stablehlo.subtract %a1, %a1 : tensor<1024x1055xf32>
    %v1_1 = stablehlo.subtract %v1_0, %v1_0 : tensor<1024x1055xf32>
    %v1_2 = stablehlo.subtract %v1_1, %v1_1 : tensor<1024x1055xf32>
    %v1_3 = stablehlo.subtract %v1_2, %v1_2 : tensor<1024x1055xf32>
    %v1_4 = stablehlo.subtract %v1_3, %v1_3 : tensor<1024x1055xf32>
    %v1_5 = stablehlo.subtract %v1_4, %v1_4 : tensor<1024x1055xf32>
    %v1_6 = stablehlo.subtract %v1_5, %v1_5 : tensor<1024x1055xf32>
    %v1_7 = stablehlo.subtract %v1_6, %v1_6 : tensor<1024x1055xf32>
    %w1 = "stablehlo.reduce_window"(%v1_7, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v2_0 = stablehlo.log %a2 : tensor<1024x1055xf32>
    %w2 = "stablehlo.reduce_window"(%v2_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v3_0 = stablehlo.rsqrt %a3 : tensor<1024x1055xf32>
    %w3 = "stablehlo.reduce_window"(%v3_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v4_0 = stablehlo.sqrt %a4 : tensor<1024x1055xf32>
    %w4 = "stablehlo.reduce_window"(%v4_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v5_0 = stablehlo.tanh %a5 : tensor<1024x1055xf32>
    %w5 = "stablehlo.reduce_window"(%v5_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v6_0 = stablehlo.power %a6, %a6 : tensor<1024x1055xf32>
    %w6 = "stablehlo.reduce_window"(%v6_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v7_0 = stablehlo.logistic %a7 : tensor<1024x1055xf32>
    %w7 = "stablehlo.reduce_window"(%v7_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v8_0 = stablehlo.sine %a8 : tensor<1024x1055xf32>
    %w8 = "stablehlo.reduce_window"(%v8_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v9_0 = stablehlo.cosine %a9 : tensor<1024x1055xf32>
    %w9 = "stablehlo.reduce_window"(%v9_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v10_0 = stablehlo.cbrt %a10 : tensor<1024x1055xf32>
    %w10 = "stablehlo.reduce_window"(%v10_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v11_0 = stablehlo.exponential_minus_one %a11 : tensor<1024x1055xf32>
    %w11 = "stablehlo.reduce_window"(%v11_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v12_0 = stablehlo.log_plus_one %a12 : tensor<1024x1055xf32>
    %w12 = "stablehlo.reduce_window"(%v12_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v13_0 = stablehlo.atan2 %a13, %a13 : tensor<1024x1055xf32>
    %w13 = "stablehlo.reduce_window"(%v13_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v14_0 = stablehlo.exponential %a14 : tensor<1024x1055xf32>
    %w14 = "stablehlo.reduce_window"(%v14_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    return %w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7, %w8, %w9, %w10, %w11, %w12, %w13, %w14 : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}

// -----

/// Ops of the usual cycles are, also eight, and so are a division and what the table does not list.

// CHECK-LABEL: module @cheap
module @cheap {
  // CHECK: %{{.*}} = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %{{.*}} = "mhlo.fusion"(%arg1) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %{{.*}} = "mhlo.fusion"(%arg2) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %{{.*}} = "mhlo.fusion"(%arg3) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %{{.*}} = "mhlo.fusion"(%arg4) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %{{.*}} = "mhlo.fusion"(%arg5) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  func.func @main(%a0: tensor<1024x1055xf32>, %a1: tensor<1024x1055xf32>, %a2: tensor<1024x1055xf32>, %a3: tensor<1024x1055xf32>, %a4: tensor<1024x1055xf32>, %a5: tensor<1024x1055xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %v0_0 = stablehlo.negate %a0 : tensor<1024x1055xf32>
    %v0_1 = stablehlo.negate %v0_0 : tensor<1024x1055xf32>
    %v0_2 = stablehlo.negate %v0_1 : tensor<1024x1055xf32>
    %v0_3 = stablehlo.negate %v0_2 : tensor<1024x1055xf32>
    %v0_4 = stablehlo.negate %v0_3 : tensor<1024x1055xf32>
    %v0_5 = stablehlo.negate %v0_4 : tensor<1024x1055xf32>
    %v0_6 = stablehlo.negate %v0_5 : tensor<1024x1055xf32>
    %v0_7 = stablehlo.negate %v0_6 : tensor<1024x1055xf32>
    %w0 = "stablehlo.reduce_window"(%v0_7, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v1_0 = stablehlo.multiply %a1, %a1 : tensor<1024x1055xf32>
    %v1_1 = stablehlo.multiply %v1_0, %v1_0 : tensor<1024x1055xf32>
    %v1_2 = stablehlo.multiply %v1_1, %v1_1 : tensor<1024x1055xf32>
    %v1_3 = stablehlo.multiply %v1_2, %v1_2 : tensor<1024x1055xf32>
    %v1_4 = stablehlo.multiply %v1_3, %v1_3 : tensor<1024x1055xf32>
    %v1_5 = stablehlo.multiply %v1_4, %v1_4 : tensor<1024x1055xf32>
    %v1_6 = stablehlo.multiply %v1_5, %v1_5 : tensor<1024x1055xf32>
    %v1_7 = stablehlo.multiply %v1_6, %v1_6 : tensor<1024x1055xf32>
    %w1 = "stablehlo.reduce_window"(%v1_7, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v2_0 = stablehlo.tan %a2 : tensor<1024x1055xf32>
    %w2 = "stablehlo.reduce_window"(%v2_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v3_0 = stablehlo.remainder %a3, %a3 : tensor<1024x1055xf32>
    %w3 = "stablehlo.reduce_window"(%v3_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v4_0 = stablehlo.divide %a4, %a4 : tensor<1024x1055xf32>
    %w4 = "stablehlo.reduce_window"(%v4_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    %v5_0 = mhlo.erf %a5 : tensor<1024x1055xf32>
    %w5 = "stablehlo.reduce_window"(%v5_0, %zero) <{window_dimensions = array<i64: 1, 32>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1055xf32>, tensor<f32>) -> tensor<1024x1024xf32>
    return %w0, %w1, %w2, %w3, %w4, %w5 : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}

// -----

/// What an op takes depends on the type, as in XLA's table: a logarithm in f32 is computed once and
/// written, one in bf16, which the table does not list, again for each reduction.

// CHECK-LABEL: module @log_f32
module @log_f32 {
  // CHECK-COUNT-1: stablehlo.log
  // CHECK-NOT: stablehlo.log
  func.func @main(%x: tensor<4096x4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.log %x : tensor<4096x4096xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    return %1, %2 : tensor<4096xf32>, tensor<4096xf32>
  }
}

// -----

// CHECK-LABEL: module @log_bf16
module @log_bf16 {
  // CHECK-COUNT-2: stablehlo.log
  func.func @main(%x: tensor<4096x4096xbf16>) -> (tensor<4096xbf16>, tensor<4096xbf16>) {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.log %x : tensor<4096x4096xbf16>
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
