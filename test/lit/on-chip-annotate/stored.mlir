// RUN: hespas-opt %s --split-input-file --on-chip-annotate | filecheck %s

/// A collective reads and writes device memory, so that its operand is written, and its result read
/// from there. The first op's result crosses it, and stays for the last op.
// CHECK: @collective
// CHECK: tanh %{{[a-z0-9]*}} :
// CHECK: stablehlo.add %0, %1 {hespas.on_chip = {read_bytes = array<i64: 4096>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 0>}}
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @collective(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.add %0, %1 : tensor<32x32xf32>
    return %2 : tensor<32x32xf32>
  }
}

// -----

/// What is read in part, or updated in place, is in device memory.
// CHECK: @parts
// CHECK: tanh %{{[a-z0-9]*}} :
// CHECK: slice {{.*}}hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 2048>, write_bytes = array<i64: 2048>}
// CHECK: negate {{.*}}hespas.on_chip = {read_bytes = array<i64: 2048>, sram_bytes = array<i64: 2048>, write_bytes = array<i64: 0>}
// CHECK-NOT: hespas.on_chip =
module {
  func.func @parts(%x: tensor<32x32xf32>, %i: tensor<i32>) -> (tensor<16x32xf32>, tensor<32x32xf32>) {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    %1 = stablehlo.slice %0 [0:16, 0:32] : (tensor<32x32xf32>) -> tensor<16x32xf32>
    %2 = stablehlo.negate %1 : tensor<16x32xf32>
    %3 = stablehlo.dynamic_update_slice %0, %2, %i, %i : (tensor<32x32xf32>, tensor<16x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
    return %2, %3 : tensor<16x32xf32>, tensor<32x32xf32>
  }
}

// -----

/// Both branches start and end in device memory. Inside, values stay.
// CHECK: @branch
// CHECK: tanh %{{[a-z0-9]*}} :
// CHECK: sine {{.*}}hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}
// CHECK: cosine {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 0>}
// CHECK-NOT: hespas.on_chip =
module {
  func.func @branch(%x: tensor<32x32xf32>, %i: tensor<i1>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    %1 = "stablehlo.if"(%i) ({
      %a = stablehlo.sine %0 : tensor<32x32xf32>
      %b = stablehlo.cosine %a : tensor<32x32xf32>
      stablehlo.return %b : tensor<32x32xf32>
    }, {
      stablehlo.return %0 : tensor<32x32xf32>
    }) : (tensor<i1>) -> tensor<32x32xf32>
    %2 = stablehlo.negate %1 : tensor<32x32xf32>
    return %2 : tensor<32x32xf32>
  }
}
