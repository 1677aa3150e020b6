// RUN: rm -rf %t && mkdir -p %t && printf '{"name": "mine", "base": "H100_80GB", "description": "d", "tdp_w": 500}' > %t/mine.json
// RUN: hespas-opt %s --calibrated-annotate=node=%t/mine.json | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s --check-prefix=WHOLE

/// An operation of 8 bits takes less energy than one of 16 bits, so that a lower limit of power slows it less.

// CHECK: stablehlo.dot_general {{.*}}bound = "power"{{.*}}dtype = "f8"{{.*}}latency_ns = 7790169.6
// CHECK: stablehlo.dot_general {{.*}}bound = "power"{{.*}}dtype = "bf16"{{.*}}latency_ns = 14345525.5
// WHOLE: stablehlo.dot_general {{.*}}bound = "compute"{{.*}}dtype = "f8"{{.*}}latency_ns = 6966187.8
// WHOLE: stablehlo.dot_general {{.*}}bound = "power"{{.*}}dtype = "bf16"{{.*}}latency_ns = 11903185.5
func.func @main(%a: tensor<16384x16384xf8E4M3FN>, %b: tensor<16384x16384xbf16>) -> (tensor<16384x16384xbf16>, tensor<16384x16384xbf16>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<16384x16384xf8E4M3FN>, tensor<16384x16384xf8E4M3FN>) -> tensor<16384x16384xbf16>
  %1 = stablehlo.dot_general %b, %b, contracting_dims = [1] x [0] : (tensor<16384x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16384x16384xbf16>
  return %0, %1 : tensor<16384x16384xbf16>, tensor<16384x16384xbf16>
}
