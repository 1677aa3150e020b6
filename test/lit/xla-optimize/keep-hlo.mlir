// RUN: hespas-opt %s --xla-optimize=target=cpu,keep-hlo=%t --disable-output
// RUN: filecheck %s --input-file %t/hlo.hlo
// RUN: not hespas-opt %s --xla-optimize 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not hespas-opt %s --xla-optimize=target=cpu,slices=2 2>&1 | filecheck %s --check-prefix=SLICES
// RUN: not hespas-opt %s --xla-optimize=target=cpu,flags=xla_a=1 2>&1 | filecheck %s --check-prefix=FLAGS
// RUN: not hespas-opt %s --xla-optimize=target=cpu,timeout=0 2>&1 | filecheck %s --check-prefix=TIMEOUT
// RUN: not hespas-opt %s --xla-optimize=target=cpu --xla-optimize=target=cpu 2>&1 | filecheck %s --check-prefix=TWICE

/// XLA's own text is kept on request. A module is optimised once.

// CHECK: HloModule
// CHECK: fusion
// TARGET: error: xla-optimize: option 'target' is missing; see `hespas presets targets`, or cpu
// SLICES: error: xla-optimize: option 'slices' is for TPUs
// FLAGS: error: xla-optimize: 'xla_a=1' is not an XLA flag: these start with --xla_
// TIMEOUT: error: xla-optimize: option 'timeout' is 0 seconds
// TWICE: error: {{.*}}XLA has optimised this module already; use the module before optimisation
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  %1 = stablehlo.multiply %0, %x : tensor<8xf32>
  return %1 : tensor<8xf32>
}
