// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu repetitions=0" 2>&1 | filecheck %s --check-prefix=REPETITIONS
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu inputs=ones" 2>&1 | filecheck %s --check-prefix=INPUTS
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu timeout=0" 2>&1 | filecheck %s --check-prefix=TIMEOUT
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu retries=-1" 2>&1 | filecheck %s --check-prefix=RETRIES
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu memory-limit=-1" 2>&1 | filecheck %s --check-prefix=MEMORY
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu jobs=0" 2>&1 | filecheck %s --check-prefix=JOBS
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu dask=here" 2>&1 | filecheck %s --check-prefix=DASK
// RUN: not hespas-opt %s --split-linear --xla-annotate="node=H100" 2>&1 | filecheck %s --check-prefix=NODE

/// A wrong option is one line, before anything is measured.

// REPETITIONS: error: {{.*}}repetitions
// INPUTS: error: xla: setting 'inputs': Input should be 'auto', 'zeros' or 'normal'
// TIMEOUT: error: {{.*}}timeout
// RETRIES: error: {{.*}}retries
// MEMORY: error: {{.*}}memory-limit
// JOBS: error: jobs is less than 1
// DASK: error: {{.*here|running on a Dask cluster needs the package 'distributed'}}
// NODE: error: no node preset is named 'H100'
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
