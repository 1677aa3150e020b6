// What bounds kernels of XLA besides memory, measured on an H200 (docs/data/xla-kernels-h200.csv).
// RUN: hespas-opt %s --calibrated-annotate=node=H200_141GB --split-input-file | filecheck %s

// Blocks of threads start one by one: 2**26 numbers of 16 bits take the 80 us of 32 bits.
// CHECK-LABEL: func.func @main
// CHECK: broadcast_in_dim{{.*}}latency_ns = 82{{[0-9]+}}.
func.func @main(%x: tensor<bf16>) -> tensor<67108864xbf16> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<bf16>) -> tensor<67108864xbf16>
  return %0 : tensor<67108864xbf16>
}

// -----

// Operands of a concatenation whose extents have no common divisor take a thread an element: 80 us.
// CHECK-LABEL: func.func @main
// CHECK: concatenate{{.*}}latency_ns = 82{{[0-9]+}}.
func.func @main(%x: tensor<4096x7xf32>, %y: tensor<4096x4089xf32>) -> tensor<4096x4096xf32> {
  %0 = stablehlo.concatenate %y, %x, dim = 1
    : (tensor<4096x4089xf32>, tensor<4096x7xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}

// -----

// Others take a thread for four: 33 us.
// CHECK-LABEL: func.func @main
// CHECK: concatenate{{.*}}latency_ns = 3{{[0-9]+}}.
func.func @main(%x: tensor<8192x1024xf32>, %y: tensor<8192x1024xf32>) -> tensor<8192x2048xf32> {
  %0 = stablehlo.concatenate %y, %x, dim = 1
    : (tensor<8192x1024xf32>, tensor<8192x1024xf32>) -> tensor<8192x2048xf32>
  return %0 : tensor<8192x2048xf32>
}

// -----

// A fusion that ends in one is bound as it is.
// CHECK-LABEL: func.func @main
// CHECK: latency_ns = 82{{[0-9]+}}.
func.func @main(%x: tensor<4096x7xf32>, %y: tensor<4096x4089xf32>) -> tensor<4096x4096xf32> {
  %0 = "mhlo.fusion"(%x, %y) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
  ^bb0(%a: tensor<4096x7xf32>, %b: tensor<4096x4089xf32>):
    %1 = stablehlo.negate %a : tensor<4096x7xf32>
    %2 = stablehlo.concatenate %b, %1, dim = 1
      : (tensor<4096x4089xf32>, tensor<4096x7xf32>) -> tensor<4096x4096xf32>
    mhlo.return %2 : tensor<4096x4096xf32>
  }) : (tensor<4096x7xf32>, tensor<4096x4089xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}

// -----

// Every other element: the sectors between are read too, 47.5 us.
// CHECK-LABEL: func.func @main
// CHECK: slice{{.*}}latency_ns = 4{{[0-9]+}}.
func.func @main(%x: tensor<4096x8192xf32>) -> tensor<4096x4096xf32> {
  %0 = stablehlo.slice %x [0:4096, 0:8192:2] : (tensor<4096x8192xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}

// -----

// Each element of a window takes slots: 32 us.
// CHECK-LABEL: func.func @main
// CHECK: latency_ns = 3{{[0-9]+}}.
func.func @main(%x: tensor<32x112x112x64xbf16>) -> tensor<32x56x56x64xbf16> {
  %lowest = stablehlo.constant dense<0xFF80> : tensor<bf16>
  %0 = "stablehlo.reduce_window"(%x, %lowest) <{
    padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>,
    window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %m = stablehlo.maximum %a, %b : tensor<bf16>
    stablehlo.return %m : tensor<bf16>
  }) : (tensor<32x112x112x64xbf16>, tensor<bf16>) -> tensor<32x56x56x64xbf16>
  return %0 : tensor<32x56x56x64xbf16>
}

// -----

// A mask that 16 heads share makes tiles of several rows: 60 us, where a softmax alone takes 19.
// CHECK-LABEL: func.func @main
// CHECK: latency_ns = 6{{[0-9]+}}.
// CHECK: latency_ns = 1{{[0-9]+}}.
func.func @main(%x: tensor<16x1024x1024xbf16>, %mask: tensor<1024x1024xi1>)
    -> (tensor<16x1024x1024xbf16>, tensor<16x1024x1024xbf16>) {
  %0 = "mhlo.fusion"(%x, %mask) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%s: tensor<16x1024x1024xbf16>, %m: tensor<1024x1024xi1>):
    %wide = stablehlo.convert %s : (tensor<16x1024x1024xbf16>) -> tensor<16x1024x1024xf32>
    %shared = stablehlo.broadcast_in_dim %m, dims = [1, 2]
      : (tensor<1024x1024xi1>) -> tensor<16x1024x1024xi1>
    %least = stablehlo.constant dense<-1.000000e+30> : tensor<16x1024x1024xf32>
    %scores = stablehlo.select %shared, %wide, %least
      : tensor<16x1024x1024xi1>, tensor<16x1024x1024xf32>
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %max = stablehlo.reduce(%scores init: %ninf) applies stablehlo.maximum across dimensions = [2]
      : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %maxes = stablehlo.broadcast_in_dim %max, dims = [0, 1]
      : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %shifted = stablehlo.subtract %scores, %maxes : tensor<16x1024x1024xf32>
    %exp = stablehlo.exponential %shifted : tensor<16x1024x1024xf32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [2]
      : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1]
      : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %p = stablehlo.divide %exp, %sums : tensor<16x1024x1024xf32>
    %r = stablehlo.convert %p : (tensor<16x1024x1024xf32>) -> tensor<16x1024x1024xbf16>
    mhlo.return %r : tensor<16x1024x1024xbf16>
  }) : (tensor<16x1024x1024xbf16>, tensor<1024x1024xi1>) -> tensor<16x1024x1024xbf16>
  %1 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%s: tensor<16x1024x1024xbf16>):
    %scores = stablehlo.convert %s : (tensor<16x1024x1024xbf16>) -> tensor<16x1024x1024xf32>
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %max = stablehlo.reduce(%scores init: %ninf) applies stablehlo.maximum across dimensions = [2]
      : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %maxes = stablehlo.broadcast_in_dim %max, dims = [0, 1]
      : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %shifted = stablehlo.subtract %scores, %maxes : tensor<16x1024x1024xf32>
    %exp = stablehlo.exponential %shifted : tensor<16x1024x1024xf32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [2]
      : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1]
      : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %p = stablehlo.divide %exp, %sums : tensor<16x1024x1024xf32>
    %r = stablehlo.convert %p : (tensor<16x1024x1024xf32>) -> tensor<16x1024x1024xbf16>
    mhlo.return %r : tensor<16x1024x1024xbf16>
  }) : (tensor<16x1024x1024xbf16>) -> tensor<16x1024x1024xbf16>
  return %0, %1 : tensor<16x1024x1024xbf16>, tensor<16x1024x1024xbf16>
}

// -----

// Numbers of 16 bits are added in a loop of swaps: 433 us, where those of 32 bits take 33.
// CHECK-LABEL: func.func @main
// CHECK: latency_ns = 4{{[0-9]+}}.
// CHECK: latency_ns = 3{{[0-9]+}}.
func.func @main(%t: tensor<1024x256xbf16>, %u: tensor<65536x256xbf16>,
    %wt: tensor<1024x256xf32>, %wu: tensor<65536x256xf32>, %i: tensor<65536x1xi32>)
    -> (tensor<1024x256xbf16>, tensor<1024x256xf32>) {
  %0 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %s = stablehlo.add %a, %b : tensor<bf16>
    stablehlo.return %s : tensor<bf16>
  }) : (tensor<1024x256xbf16>, tensor<65536x1xi32>, tensor<65536x256xbf16>) -> tensor<1024x256xbf16>
  %1 = "stablehlo.scatter"(%wt, %i, %wu) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1024x256xf32>, tensor<65536x1xi32>, tensor<65536x256xf32>) -> tensor<1024x256xf32>
  return %0, %1 : tensor<1024x256xbf16>, tensor<1024x256xf32>
}

// -----

// The gradient of a norm whose scale tokens share reduces three times: 100 slots an element. Two reductions are bound by
// memory, and a slice of the whole reads what it returns.
// CHECK-LABEL: func.func @main
// CHECK: bound = "compute"{{.*}}latency_ns = 10{{[0-9]+}}.
// CHECK: bound = "memory"{{.*}}latency_ns = 7{{[0-9]+}}.
func.func @main(%x: tensor<8192x4096xf32>, %scale: tensor<4096xf32>)
    -> (tensor<8192x4096xf32>, tensor<8192x4096xf32>) {
  %0 = "mhlo.fusion"(%x, %scale) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<8192x4096xf32>, %s: tensor<4096xf32>):
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %shared = stablehlo.broadcast_in_dim %s, dims = [1]
      : (tensor<4096xf32>) -> tensor<8192x4096xf32>
    %b = stablehlo.multiply %a, %shared : tensor<8192x4096xf32>
    %1 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8192x4096xf32>, tensor<f32>) -> tensor<8192xf32>
    %2 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8192x4096xf32>, tensor<f32>) -> tensor<8192xf32>
    %3 = stablehlo.add %1, %2 : tensor<8192xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8192xf32>) -> tensor<8192x4096xf32>
    %5 = stablehlo.subtract %b, %4 : tensor<8192x4096xf32>
    %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8192x4096xf32>, tensor<f32>) -> tensor<8192xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<8192xf32>) -> tensor<8192x4096xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<8192x4096xf32>
    mhlo.return %8 : tensor<8192x4096xf32>
  }) : (tensor<8192x4096xf32>, tensor<4096xf32>) -> tensor<8192x4096xf32>
  %1 = "mhlo.fusion"(%0, %scale) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<8192x4096xf32>, %s: tensor<4096xf32>):
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %shared = stablehlo.broadcast_in_dim %s, dims = [1]
      : (tensor<4096xf32>) -> tensor<8192x4096xf32>
    %whole = stablehlo.slice %a [0:8192, 0:4096] : (tensor<8192x4096xf32>) -> tensor<8192x4096xf32>
    %b = stablehlo.multiply %whole, %shared : tensor<8192x4096xf32>
    %1 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8192x4096xf32>, tensor<f32>) -> tensor<8192xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8192xf32>) -> tensor<8192x4096xf32>
    %3 = stablehlo.subtract %b, %2 : tensor<8192x4096xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8192x4096xf32>, tensor<f32>) -> tensor<8192xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<8192xf32>) -> tensor<8192x4096xf32>
    %6 = stablehlo.multiply %3, %5 : tensor<8192x4096xf32>
    mhlo.return %6 : tensor<8192x4096xf32>
  }) : (tensor<8192x4096xf32>, tensor<4096xf32>) -> tensor<8192x4096xf32>
  return %0, %1 : tensor<8192x4096xf32>, tensor<8192x4096xf32>
}
