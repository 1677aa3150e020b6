// RUN: hespas-opt %s --on-chip-annotate --split-input-file | filecheck %s
// RUN: hespas-opt %s --on-chip-annotate --on-chip-annotate --split-input-file | filecheck %s

/// What is made before a loop stays into its first iteration, and the state of the last one until it is read after the
/// loop: with 8 KiB no iteration reads or writes device memory but for the weights in the first. With 4 KiB the state of
/// two iterations moves, because the last result takes the place of the weights, which end there, too.

// CHECK-LABEL: module @around
// CHECK-SAME: hespas.on_chip_program = "
// CHECK: stablehlo.tanh {{.*}}hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}
// CHECK: stablehlo.multiply {{.*}}hespas.on_chip = {read_bytes = array<i64: 2048, 7168>, sram_bytes = array<i64: 4096, 8192>, write_bytes = array<i64: 1024, 4096>}
// CHECK: stablehlo.negate {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 0>}
module @around {
  func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %t = stablehlo.tanh %x : tensor<32x32xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %t) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<4> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %m = stablehlo.multiply %v, %w : tensor<32x32xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %m : tensor<i32>, tensor<32x32xf32>
    }
    %r = stablehlo.negate %0#1 : tensor<32x32xf32>
    return %r : tensor<32x32xf32>
  }
}

// -----

/// Of two iterations one reads the state on the chip, and with 8 KiB one writes it there. A loop without iterations saves nothing.

// CHECK-LABEL: module @few
// CHECK: stablehlo.multiply {{.*}}hespas.on_chip = {read_bytes = array<i64: 2048, 4096>, sram_bytes = array<i64: 4096, 8192>, write_bytes = array<i64: 0, 2048>}
// CHECK-NOT: hespas.on_chip =
module @few {
  func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<2> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %m = stablehlo.multiply %v, %w : tensor<32x32xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %m : tensor<i32>, tensor<32x32xf32>
    }
    %1:2 = stablehlo.while(%i = %zero, %v = %0#1) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %m = stablehlo.tanh %v : tensor<32x32xf32>
      %k = stablehlo.sine %m : tensor<32x32xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %k : tensor<i32>, tensor<32x32xf32>
    }
    return %0#1, %1#1 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}

// -----

/// The body of a third loop starts and ends in device memory; what it makes for itself stays.

// CHECK-LABEL: module @deep
// CHECK: stablehlo.tanh {{.*}}hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}
// CHECK: stablehlo.sine {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 0>}
// CHECK-NOT: hespas.on_chip =
module @deep {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %d = %x) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %1:2 = stablehlo.while(%j = %zero, %b = %d) : tensor<i32>, tensor<32x32xf32>
      cond {
        %n = stablehlo.constant dense<5> : tensor<i32>
        %c = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %2:2 = stablehlo.while(%k = %zero, %a = %b) : tensor<i32>, tensor<32x32xf32>
        cond {
          %n = stablehlo.constant dense<5> : tensor<i32>
          %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %t = stablehlo.tanh %a : tensor<32x32xf32>
          %s = stablehlo.sine %t : tensor<32x32xf32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %next = stablehlo.add %k, %one : tensor<i32>
          stablehlo.return %next, %s : tensor<i32>, tensor<32x32xf32>
        }
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %next, %2#1 : tensor<i32>, tensor<32x32xf32>
      }
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1#1 : tensor<i32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

/// A result of the program is written, though it stays for another reader. Values of less than 1 KiB are always moved.

// CHECK-LABEL: module @returned
// CHECK: stablehlo.tanh %{{[a-z0-9]*}} :
// CHECK: stablehlo.negate {{.*}}hespas.on_chip = {read_bytes = array<i64: 1024>, sram_bytes = array<i64: 1024>, write_bytes = array<i64: 0>}
// CHECK-NOT: hespas.on_chip =
module @returned {
  func.func @main(%x: tensor<256xf32>, %y: tensor<255xf32>) -> (tensor<256xf32>, tensor<256xf32>, tensor<255xf32>) {
    %0 = stablehlo.tanh %x : tensor<256xf32>
    %1 = stablehlo.negate %0 : tensor<256xf32>
    %2 = stablehlo.tanh %y : tensor<255xf32>
    %3 = stablehlo.negate %2 : tensor<255xf32>
    return %0, %1, %3 : tensor<256xf32>, tensor<256xf32>, tensor<255xf32>
  }
}

// -----

/// What an earlier time has written on ops that save nothing any more goes.

// CHECK-LABEL: module @stale
// CHECK-NOT: hespas.on_chip =
module @stale attributes {hespas.on_chip_program = "0123456789abcdef"} {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x {hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}} : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}
