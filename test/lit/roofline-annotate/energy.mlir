// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 tdp=100 hbm-power-share=0.25" | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" | filecheck %s --check-prefix=NONE
// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e10 tdp=100 hbm-power-share=0.25" | filecheck %s --check-prefix=COMPUTE
// RUN: not hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 tdp=100" 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: not hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 tdp=100 hbm-power-share=2" 2>&1 | filecheck %s --check-prefix=SHARE

/// Of 100 W the memory takes 25 W while 12,288 bytes move in 12.288 ns, and the lanes 75 W while they
/// add in 1.024 ns: 384 nJ. At a hundredth of the rate they add in 102.4 ns, and the memory takes 25 W for 12 % of them.
/// An op without elements takes no time and no energy.

// CHECK: energy_nj = 3.840000e+02 : f64
// CHECK: stablehlo.negate {{.*}}energy_nj = 0.000000e+00 : f64
// COMPUTE: energy_nj = {{7.9872[0-9]*e+03|798[67].[0-9]+|7987.2[0-9]*}} : f64
// NONE-NOT: energy_nj
// ALONE: error: tdp needs hbm-power-share; set the share of the power limit that memory uses: hbm-power-share=0.4
// SHARE: error: hbm-power-share must be more than 0 and at most 1, not 2.0
func.func @main(%a: tensor<1024xf32>, %e: tensor<0xf32>) -> (tensor<1024xf32>, tensor<0xf32>) {
  %0 = stablehlo.add %a, %a : tensor<1024xf32>
  %1 = stablehlo.negate %e : tensor<0xf32>
  return %0, %1 : tensor<1024xf32>, tensor<0xf32>
}
