// RUN: hespas-opt %s --split-input-file --on-chip-annotate | filecheck %s
// RUN: hespas-opt %s --split-input-file --on-chip-annotate --on-chip-annotate | filecheck %s

/// The result of the first op stays for 4 KiB, so that it is neither written nor read again. %x is
/// read twice, and needs 4 KiB more to stay in between. Results of the program are written.
// CHECK: @chain
// CHECK: tanh {{.*}}hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}
// CHECK: negate {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}
// CHECK: add {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096, 8192>, sram_bytes = array<i64: 4096, 8192>, write_bytes = array<i64: 0, 0>}
module {
  func.func @chain(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    %1 = stablehlo.negate %0 : tensor<32x32xf32>
    %2 = stablehlo.add %1, %x : tensor<32x32xf32>
    return %2 : tensor<32x32xf32>
  }
}

// -----

/// Without another use nothing stays.
// CHECK: @once
// CHECK-NOT: hespas.on_chip =
module {
  func.func @once(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// A transposition cannot be written over its operand, so that both take their place.
// CHECK: @apart
// CHECK: tanh {{.*}}sram_bytes = array<i64: 4096>
// CHECK: transpose {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096, 4096>, sram_bytes = array<i64: 4096, 8192>, write_bytes = array<i64: 0, 4096>}
module {
  func.func @apart(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.negate %1 : tensor<32x32xf32>
    return %2 : tensor<32x32xf32>
  }
}

// -----

/// A product holds one of its matrices and strips of the others: here 4 KiB each. %x, which it reads
/// twice, stays besides from the first op on, and what stays across the product comes on top.
// CHECK: @across
// CHECK: tanh {{.*}}hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 20480>, write_bytes = array<i64: 4096>}
// CHECK: dot_general {{.*}}hespas.on_chip = {read_bytes = array<i64: 8192>, sram_bytes = array<i64: 16384>
// CHECK: negate {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096>, sram_bytes = array<i64: 20480>
module {
  func.func @across(%x: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.negate %0 : tensor<32x32xf32>
    return %1, %2 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}
