// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5e --split-input-file | filecheck %s --check-prefix=TPU

/// How often a kernel without measurements moves its data follows from its algorithm. The numbers are those of the node's
/// constants, and change with them; the ratios do not.

module @passes {
  func.func @main(%x8192_2048_f32_0: tensor<8192x2048xf32>, %x4096_4096_f32_0: tensor<4096x4096xf32>, %x2048_8192_f32_0: tensor<2048x8192xf32>, %x16777216_i32_0: tensor<16777216xi32>, %x16777216_i32_1: tensor<16777216xi32>, %x16777216_i64_1: tensor<16777216xi64>, %x16777216_f32_0: tensor<16777216xf32>, %x16777216_i32_2: tensor<16777216xi32>, %k: tensor<1024x65536xf32>, %f: tensor<16384x256xcomplex<f32>>, %g: tensor<64x65536xcomplex<f32>>) -> (tensor<8192x2048xf32>, tensor<4096x4096xf32>, tensor<2048x8192xf32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi64>, tensor<16777216xf32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xf32>, tensor<16777216xi32>, tensor<1024x8xf32>, tensor<1024x64xf32>, tensor<1024x1024xf32>, tensor<16384x256xcomplex<f32>>, tensor<64x65536xcomplex<f32>>) {
    /// Rows of 2,048 numbers: one pass in shared memory.
    // CHECK: hespas.cost{{.*}}latency_ns = 914770.{{.*}} low_ns = 791988.
    // TPU: hespas.cost{{.*}}latency_ns = 193791.{{.*}} low_ns = 151992.
    %short = "stablehlo.sort"(%x8192_2048_f32_0) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<8192x2048xf32>) -> (tensor<8192x2048xf32>)
    /// Of 4,096: two passes more.
    // CHECK: hespas.cost{{.*}}latency_ns = 1089161{{.*}} low_ns = 942971.
    // TPU: hespas.cost{{.*}}latency_ns = 578513.{{.*}} low_ns = 453734.
    %long = "stablehlo.sort"(%x4096_4096_f32_0) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>)
    /// Of 8,192: five more.
    // CHECK: hespas.cost{{.*}}latency_ns = 1281782{{.*}} low_ns = 1109738
    // TPU: hespas.cost{{.*}}latency_ns = 1155529{{.*}} low_ns = 906293.
    %longer = "stablehlo.sort"(%x2048_8192_f32_0) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<2048x8192xf32>) -> (tensor<2048x8192xf32>)
    /// One row of integers that are compared: CUB moves them once for each of four digits.
    // CHECK: hespas.cost{{.*}}latency_ns = 638260.{{.*}} low_ns = 356715.
    // TPU: hespas.cost{{.*}}latency_ns = 2019404{{.*}} low_ns = 1583839
    %radix = "stablehlo.sort"(%x16777216_i32_0) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<i32>, %b0: tensor<i32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<16777216xi32>) -> (tensor<16777216xi32>)
    /// Pairs of signed keys and values, too.
    // CHECK: hespas.cost{{.*}}latency_ns = 647266.{{.*}} low_ns = 361749.
    // TPU: hespas.cost{{.*}}latency_ns = 4020265{{.*}} low_ns = 3153134
    %pairs:2 = "stablehlo.sort"(%x16777216_i32_0, %x16777216_i32_1) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<i32>, %b0: tensor<i32>, %a1: tensor<i32>, %b1: tensor<i32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<16777216xi32>, tensor<16777216xi32>) -> (tensor<16777216xi32>, tensor<16777216xi32>)
    /// But not pairs of other types.
    // CHECK: hespas.cost{{.*}}latency_ns = 1462151{{.*}} low_ns = 1265897
    // TPU: hespas.cost{{.*}}latency_ns = 6021126{{.*}} low_ns = 4722429
    %wide:2 = "stablehlo.sort"(%x16777216_i32_0, %x16777216_i64_1) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<i32>, %b0: tensor<i32>, %a1: tensor<i64>, %b1: tensor<i64>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<16777216xi32>, tensor<16777216xi64>) -> (tensor<16777216xi32>, tensor<16777216xi64>)
    /// Numbers: either kernel, so that the lower end is CUB's.
    // CHECK: hespas.cost{{.*}}latency_ns = 638260{{.*}} low_ns = 356715.
    // TPU: hespas.cost{{.*}}latency_ns = 2019404{{.*}} low_ns = 1583839
    %numbers = "stablehlo.sort"(%x16777216_f32_0) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<16777216xf32>) -> (tensor<16777216xf32>)
    /// A comparison of something else: either kernel.
    // CHECK: hespas.cost{{.*}}latency_ns = 638260{{.*}} low_ns = 356715.
    // TPU: hespas.cost{{.*}}latency_ns = 2019404{{.*}} low_ns = 1583839
    %equal = "stablehlo.sort"(%x16777216_i32_0) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<i32>, %b0: tensor<i32>):
      %s = stablehlo.compare NE, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<16777216xi32>) -> (tensor<16777216xi32>)
    /// Three operands: XLA's.
    // CHECK: hespas.cost{{.*}}latency_ns = 1462151{{.*}} low_ns = 1265897
    // TPU: hespas.cost{{.*}}latency_ns = 6021126{{.*}} low_ns = 4722429
    %three:3 = "stablehlo.sort"(%x16777216_i32_0, %x16777216_i32_1, %x16777216_i32_2) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<i32>, %b0: tensor<i32>, %a1: tensor<i32>, %b1: tensor<i32>, %a2: tensor<i32>, %b2: tensor<i32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>) -> (tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>)
    /// Positions that make a sort stable and that are read: either kernel.
    // CHECK: hespas.cost{{.*}}latency_ns = 647266{{.*}} low_ns = 361749.
    // TPU: hespas.cost{{.*}}latency_ns = 4021572{{.*}} low_ns = 3154159
    %stable:2 = "stablehlo.sort"(%x16777216_f32_0, %x16777216_i32_1) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %r = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %p = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<16777216xf32>, tensor<16777216xi32>) -> (tensor<16777216xf32>, tensor<16777216xi32>)
    /// XLA selects at most 16 of at least 1,024 in one pass.
    // CHECK: hespas.cost{{.*}}latency_ns = 869375.{{.*}} low_ns = 752685.
    // TPU: hespas.cost{{.*}}latency_ns = 385123.{{.*}} low_ns = 302055.
    %few:2 = chlo.top_k(%k, k = 8) : tensor<1024x65536xf32> -> (tensor<1024x8xf32>, tensor<1024x8xi32>)
    /// More of them, it sorts with their positions, but for a TPU.
    // CHECK: hespas.cost{{.*}}latency_ns = 4148122{{.*}} low_ns = 3591351
    // TPU: hespas.cost{{.*}}latency_ns = 387408.{{.*}} low_ns = 303848.
    %many:2 = chlo.top_k(%k, k = 64) : tensor<1024x65536xf32> -> (tensor<1024x64xf32>, tensor<1024x64xi32>)
    /// A TPU selects less than 256.
    // CHECK: hespas.cost{{.*}}latency_ns = 4148122{{.*}} low_ns = 3591351
    // TPU: hespas.cost{{.*}}latency_ns = 3205619{{.*}} low_ns = 2514199
    %most:2 = chlo.top_k(%k, k = 1024) : tensor<1024x65536xf32> -> (tensor<1024x1024xf32>, tensor<1024x1024xi32>)
    /// A transform of 256 points is one kernel,
    // CHECK: hespas.cost{{.*}}latency_ns = 24984.1{{.*}} low_ns = 21630.7
    // TPU: hespas.cost{{.*}}latency_ns = 98375.8{{.*}} low_ns = 77157.1
    %fft = stablehlo.fft %f, type = FFT, length = [256] : (tensor<16384x256xcomplex<f32>>) -> tensor<16384x256xcomplex<f32>>
    /// of 65,536 two.
    // CHECK: hespas.cost{{.*}}latency_ns = 49936.9{{.*}} low_ns = 43234.2
    // TPU: hespas.cost{{.*}}latency_ns = 196751.{{.*}} low_ns = 154314.
    %ffts = stablehlo.fft %g, type = FFT, length = [65536] : (tensor<64x65536xcomplex<f32>>) -> tensor<64x65536xcomplex<f32>>
    return %short, %long, %longer, %radix, %pairs#0, %pairs#1, %wide#0, %wide#1, %numbers, %equal, %three#0, %three#1, %three#2, %stable#0, %stable#1, %few#0, %many#0, %most#0, %fft, %ffts : tensor<8192x2048xf32>, tensor<4096x4096xf32>, tensor<2048x8192xf32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi64>, tensor<16777216xf32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xi32>, tensor<16777216xf32>, tensor<16777216xi32>, tensor<1024x8xf32>, tensor<1024x64xf32>, tensor<1024x1024xf32>, tensor<16384x256xcomplex<f32>>, tensor<64x65536xcomplex<f32>>
  }
}

// -----

/// Positions that make a sort stable and that nothing reads do not count: this is the sort of the numbers alone.

module @unread {
  func.func @main(%x16777216_f32_0: tensor<16777216xf32>, %x16777216_i32_1: tensor<16777216xi32>) -> tensor<16777216xf32> {
    // CHECK: hespas.cost{{.*}}latency_ns = 638260{{.*}} low_ns = 356715.
    // TPU: hespas.cost{{.*}}latency_ns = 2020712{{.*}} low_ns = 1584864
    %unread:2 = "stablehlo.sort"(%x16777216_f32_0, %x16777216_i32_1) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
      %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %r = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %p = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<16777216xf32>, tensor<16777216xi32>) -> (tensor<16777216xf32>, tensor<16777216xi32>)
    return %unread#0 : tensor<16777216xf32>
  }
}
