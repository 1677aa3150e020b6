// RUN: hespas-opt %s --roofline-annotate=node=TPUv3 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=TPUv4 2>&1 | filecheck %s --check-prefix=LINK
// RUN: hespas-opt %s --roofline-annotate="peak-flops=1e12 memory-bandwidth=1e12" 2>&1 | filecheck %s --check-prefix=RATES

/// A name that means a core in the published presets, and a chip here, is noted. The module has the bandwidth of a
/// chip to its host, by which traces time copies; two rates alone say nothing of it.

// CHECK: roofline-annotate: TPUv3 is the chip; the published preset of this name is one core
// LINK-NOT: is the chip
// LINK: hespas.target = {{.*}}host_link_bytes_per_s = 1.6
// RATES-NOT: host_link
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
