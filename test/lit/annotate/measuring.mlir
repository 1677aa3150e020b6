// RUN: not hespas-opt %s --annotate="estimator=roofline jobs=2" 2>&1 | filecheck %s --check-prefix=JOBS
// RUN: not hespas-opt %s --annotate=dask=tcp://127.0.0.1:9 2>&1 | filecheck %s --check-prefix=DASK
// RUN: not hespas-opt %s --annotate=memory-limit=2 2>&1 | filecheck %s --check-prefix=MEMORY
// RUN: not hespas-opt %s --annotate=timeout=soon 2>&1 | filecheck %s --check-prefix=TIMEOUT

/// How regions are measured is for estimators that measure.

// JOBS: error: jobs is for estimators that measure, and roofline does not; leave jobs out
// DASK: error: dask is for estimators that measure, and roofline does not
// MEMORY: error: memory-limit is for estimators that measure
// TIMEOUT: error: annotate: option 'timeout' takes a finite number, not 'soon'
module {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
