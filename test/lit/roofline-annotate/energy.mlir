// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 tdp=100 hbm-power-share=0.25" | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" | filecheck %s --check-prefix=NONE
// RUN: not hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 tdp=100" 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: not hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 tdp=100 hbm-power-share=2" 2>&1 | filecheck %s --check-prefix=SHARE

/// Of 100 W the memory takes 25 W while 12,288 bytes move in 12.288 ns, and the lanes 75 W while they
/// add in 1.024 ns: 384 nJ.

// CHECK: energy_nj = 3.840000e+02 : f64
// NONE-NOT: energy_nj
// ALONE: error: {{.*}}hbm-power-share
// SHARE: error: {{.*}}hbm-power-share
func.func @main(%a: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.add %a, %a : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
