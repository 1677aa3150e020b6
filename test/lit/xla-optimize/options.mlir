// RUN: not hespas-opt %s --xla-optimize=stage=hlo 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not hespas-opt %s "--xla-optimize=target=H100_80GB flags={--xla_a=it's}" 2>&1 | filecheck %s --check-prefix=QUOTE
// RUN: not hespas-opt %s '--xla-optimize=target=H100_80GB flags={"--xla_a=\"a b\""}' 2>&1 | filecheck %s --check-prefix=SPACES
// RUN: not hespas-opt %s "--xla-optimize=target=H100_80GB flags=xla_a" 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: not hespas-opt %s "--xla-optimize=target=cpu framework=none" 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not hespas-opt %s "--xla-optimize=target=cpu framework=maxtext" 2>&1 | filecheck %s --check-prefix=FRAMEWORK
// RUN: not hespas-opt %s "--xla-optimize=target=TPUv4 disable=fusion" 2>&1 | filecheck %s --check-prefix=DISABLE
// RUN: not hespas-opt %s "--xla-optimize=target=cpu slices=2" 2>&1 | filecheck %s --check-prefix=SLICES
// RUN: not hespas-opt %s "--xla-optimize=target=cpu timeout=0" 2>&1 | filecheck %s --check-prefix=TIMEOUT
// RUN: not hespas-opt %s "--xla-optimize=target=cpu memory-fraction=2" 2>&1 | filecheck %s --check-prefix=MEMORY
// RUN: not hespas-opt %s "--xla-optimize=target=cpu devices=-1" 2>&1 | filecheck %s --check-prefix=DEVICES
// RUN: hespas-opt %s "--xla-optimize=target=cpu disable=algsimp flags=--xla_disable_hlo_passes=fusion" | filecheck %s

/// Flags are words of a shell. Those that XLA_FLAGS cannot hold are refused, and so are options that the target does not have.

// MISSING: error: xla-optimize: option 'target' is missing; see `hespas presets targets`, or cpu
// QUOTE: error: xla-optimize: cannot read flags=--xla_a=it's: No closing quotation
// SPACES: error: xla-optimize: the flag --xla_a="a b" has both quotes and spaces
// FLAG: error: xla-optimize: 'xla_a' is not an XLA flag: these start with --xla_
// NONE: error: the XLA flags of no framework 'none' are known
// FRAMEWORK: error: xla-optimize: option 'framework' is for GPUs
// DISABLE: error: xla-optimize: option 'disable' is not for TPUs
// SLICES: error: xla-optimize: option 'slices' is for TPUs
// TIMEOUT: error: xla-optimize: option 'timeout' is 0 seconds
// MEMORY: error: xla-optimize: option 'memory-fraction' is 2; give a share of the memory
// DEVICES: error: xla-optimize: option 'devices' is -1, less than 0

/// XLA uses the last of each flag, so that the passes that both options disable are one flag: without fusion there are two
/// kernels.

// CHECK: xla_flags = "--xla_disable_hlo_passes=fusion --xla_disable_hlo_passes=algsimp"
// CHECK-COUNT-2: "mhlo.fusion"
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
