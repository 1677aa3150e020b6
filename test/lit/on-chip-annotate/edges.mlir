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
