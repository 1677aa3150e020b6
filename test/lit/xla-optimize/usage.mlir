// RUN: not hespas-opt %s --xla-optimize=target=H1000 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not hespas-opt %s --xla-optimize=target=cpu,stage=late 2>&1 | filecheck %s --check-prefix=STAGE
// RUN: not hespas-opt %s --xla-optimize=target=cpu,async-collectives=some 2>&1 | filecheck %s --check-prefix=ASYNC
// RUN: not hespas-opt %s --xla-optimize=target=cpu,async-collectives=hide 2>&1 | filecheck %s --check-prefix=HIDE
// RUN: not hespas-opt %s --xla-optimize=target=cpu,preset=none 2>&1 | filecheck %s --check-prefix=PRESET
// RUN: not hespas-opt %s --xla-optimize=target=cpu,devices=3 2>&1 | filecheck %s --check-prefix=DEVICES
// RUN: not hespas-opt %s --xla-optimize=target=cpu,devices-per-host=0 2>&1 | filecheck %s --check-prefix=HOST

/// A wrong option is one line, before anything is compiled.

// TARGET: error: {{.*}}H1000
// STAGE: error: {{.*}}'late'
// ASYNC: error: {{.*}}'some'
// HIDE: error: xla-optimize: option 'async-collectives' is hide, and XLA:CPU hides none
// PRESET: error: no set of XLA flags is named 'none'
// DEVICES: error: {{.*}}the module is for 1 x 2 devices (replicas x partitions), not 3
// HOST: error: xla-optimize: option 'devices-per-host' is 0, less than 1
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
