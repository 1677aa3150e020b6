// RUN: hespas-opt %s --on-chip-annotate | filecheck %s
// RUN: not hespas-opt %s --on-chip-annotate=size=4 2>&1 | filecheck %s --check-prefix=OPTION

/// What an earlier run has written, on an op that no longer keeps anything too, is replaced.

// CHECK: tanh {{.*}}sram_bytes = array<i64: 4096>
// CHECK: negate {{.*}}read_bytes = array<i64: 4096>, sram_bytes = array<i64: 4096>, write_bytes = array<i64: 0>
// OPTION: error: on-chip-annotate has no option 'size'
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x {hespas.on_chip = {read_bytes = array<i64: 0>, sram_bytes = array<i64: 7777>, write_bytes = array<i64: 4096>}} : tensor<1024xf32>
  %1 = stablehlo.negate %0 {hespas.on_chip = {read_bytes = array<i64: 1, 2>, sram_bytes = array<i64: 1024, 2048>, write_bytes = array<i64: 1, 2>}} : tensor<1024xf32>
  return %1 : tensor<1024xf32>
}
