// RUN: hespas-opt %s '--annotate=settings="memory-bandwidth=1e9;peak-flops=1e12"' | filecheck %s
// RUN: hespas-opt %s '--annotate=estimator=systolic node=TPUv3_core settings="dataflow=os;arrays=1"' | filecheck %s --check-prefix=ARRAY
// RUN: not hespas-opt %s '--annotate=settings="tdp"' 2>&1 | filecheck %s --check-prefix=FORM
// RUN: not hespas-opt %s '--annotate=settings="tdp=1;tdp=2"' 2>&1 | filecheck %s --check-prefix=DOUBLE
// RUN: not hespas-opt %s '--annotate=settings="tdp=hot"' 2>&1 | filecheck %s --check-prefix=VALUE

/// Settings are those of the pass of the estimator, which the module names to do the same again.

// CHECK: node = "custom", {{.*}}pipeline = "roofline-annotate{{{.*}}memory-bandwidth=1000000000.0
// CHECK: latency_ns = 6.400000e+01
// ARRAY: estimator = "systolic {{[0-9]+}}", {{.*}}pipeline = "systolic-annotate{node=TPUv3_core {{.*}}dataflow=os
// FORM: error: settings: 'tdp' is not key=value
// DOUBLE: error: settings: 'tdp' is set twice
// VALUE: error: roofline: setting 'tdp': Input should be a valid number
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
