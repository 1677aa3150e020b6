// RUN: hespas-opt %s --on-chip-annotate --split-input-file | filecheck %s

/// A single op, an empty program and a value without users keep nothing.

// CHECK-LABEL: module @one
// CHECK-NOT: hespas.on_chip =
module @one {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = stablehlo.tanh %x : tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }
}

// -----

// CHECK-LABEL: module @empty
// CHECK-NOT: hespas.on_chip =
module @empty {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    return %x : tensor<1024xf32>
  }
}

// -----

/// A fusion is one kernel: what is inside is not kept, its result is.

// CHECK-LABEL: module @fusion
// CHECK: "mhlo.fusion"
// CHECK: stablehlo.tanh %{{[a-z0-9]*}} :
// CHECK: stablehlo.negate %{{[a-z0-9]*}} :
// CHECK: }) {hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 4096>}
// CHECK: stablehlo.sine {{.*}}hespas.on_chip = {read_bytes = array<i64: 4096>
module @fusion {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024xf32>):
      %b = stablehlo.tanh %a : tensor<1024xf32>
      %c = stablehlo.negate %b : tensor<1024xf32>
      mhlo.return %c : tensor<1024xf32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %1 = stablehlo.sine %0 : tensor<1024xf32>
    return %1 : tensor<1024xf32>
  }
}

// -----

/// Calls without results, calls whose work is not known, ops of no elements and those in loops that never run are no kernels.

// CHECK-LABEL: module @others
// CHECK-NOT: hespas.on_chip =
module @others {
  func.func @main(%x: tensor<1024xf32>, %e: tensor<0xf32>, %i: tensor<i32>) -> (tensor<1024xf32>, tensor<0xf32>, tensor<1024xf32>) {
    %0 = stablehlo.tanh %x : tensor<1024xf32>
    stablehlo.custom_call @log(%0) {has_side_effect = true} : (tensor<1024xf32>) -> ()
    %1 = stablehlo.custom_call @kernel(%0) : (tensor<1024xf32>) -> tensor<1024xf32>
    %2 = stablehlo.tanh %e : tensor<0xf32>
    %false = stablehlo.constant dense<false> : tensor<i1>
    %3 = "stablehlo.case"(%i) ({
      %4 = "stablehlo.case"(%i) ({
        %5 = stablehlo.while(%a = %x) : tensor<1024xf32>
        cond {
          stablehlo.return %false : tensor<i1>
        } do {
          %6 = stablehlo.tanh %a : tensor<1024xf32>
          %7 = stablehlo.sine %6 : tensor<1024xf32>
          stablehlo.return %7 : tensor<1024xf32>
        }
        stablehlo.return %5 : tensor<1024xf32>
      }) : (tensor<i32>) -> tensor<1024xf32>
      stablehlo.return %4 : tensor<1024xf32>
    }) : (tensor<i32>) -> tensor<1024xf32>
    return %1, %2, %3 : tensor<1024xf32>, tensor<0xf32>, tensor<1024xf32>
  }
}
