// RUN: not hespas-opt %s --roofline-annotate 2>&1 | filecheck %s
// RUN: not hespas-opt %s --xla-optimize=target=TPUv5e 2>&1 | filecheck %s --check-prefix=TPU
// RUN: not hespas-opt %s --prepare=platform=cuda --prepare=platform=cuda 2>&1 | filecheck %s --check-prefix=TWICE

/// Nobody has said which of the platforms is estimated. XLA compiles for the platform of its target.

// CHECK: error: 'func.func': the program was exported for cpu, cuda; choose one of them, as in hespas-opt --prepare=platform=cpu
// TPU: error: 'func.func': the program was exported for cpu, cuda, not for tpu
// TWICE: error: select-platform: platform=cuda, but the program is for one platform
module attributes {hespas.facts = {exported_for = "cpu, cuda"}} {
  func.func @main(%platform: tensor<i32> {jax.global_constant = "_platform_index"}, %x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
