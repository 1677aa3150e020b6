// RUN: hespas-opt %s --split-input-file --on-chip-annotate | filecheck %s

/// The state of a loop of 8 iterations stays in 8 KiB, as the weights do: each op writes its result over it. It is read
/// from device memory in the first iteration, and written in the last one, on average 7/8 of the accesses. With 4 KiB
/// it moves before the last iteration, too, in which the result takes the place of the weights.
// CHECK: @loop
// CHECK-NOT: stablehlo.add {{.*}}hespas.on_chip
// CHECK: stablehlo.multiply {{.*}}hespas.on_chip = {read_bytes = array<i64: 3072, 7168>, sram_bytes = array<i64: 4096, 8192>, write_bytes = array<i64: 4096, 4096>}
// CHECK: stablehlo.negate {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096, 4096>, sram_bytes = array<i64: 4096, 8192>, write_bytes = array<i64: 512, 3584>}
module {
  func.func @loop(%s: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<8> : tensor<i32>
    %0:2 = stablehlo.while(%i = %z, %h = %s) : tensor<i32>, tensor<32x32xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %a = stablehlo.multiply %h, %w : tensor<32x32xf32>
      %b = stablehlo.negate %a : tensor<32x32xf32>
      stablehlo.return %j, %b : tensor<i32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

/// A function that is called twice: its result stays until the op that reads it once of two times.
// CHECK: @call
// CHECK: @twice
// CHECK: tanh {{.*}}hespas.on_chip = {read_bytes = array<i64: 2048>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 2048>}
module {
  func.func @call(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = func.call @twice(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = func.call @twice(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
  func.func private @twice(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}
