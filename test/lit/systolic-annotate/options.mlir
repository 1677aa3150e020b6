// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0" | filecheck %s
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=2e9 first-access-cycles=0" | filecheck %s --check-prefix=CLOCK
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=1000" | filecheck %s --check-prefix=FIRST
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 cores=2" | filecheck %s --check-prefix=CORES
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 rows=64" | filecheck %s --check-prefix=ROWS
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 columns=64" | filecheck %s --check-prefix=COLUMNS
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 cycles-per-row=0.5" | filecheck %s --check-prefix=FAST
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 lanes=64" | filecheck %s --check-prefix=LANES
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 lanes=64 alus=4" | filecheck %s --check-prefix=ALUS
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 sram-read-bytes-per-cycle=8" | filecheck %s --check-prefix=READ
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 sram-write-bytes-per-cycle=8" | filecheck %s --check-prefix=WRITE
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core sram-bytes=65536" | filecheck %s --check-prefix=SMALL
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 dataflow=best" | filecheck %s --check-prefix=BEST
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 clock-hz=1e9 first-access-cycles=0 array=TPUv5e" | filecheck %s --check-prefix=PRESET

/// One option at a time changes the time of a product of 65,918 cycles, or of a sum of 32 cycles, at
/// 1 GHz: half of it at 2 GHz, 1,000 cycles to wait, two cores, half an array, two rows a cycle, 1/16
/// of the lanes, and twice the ALUs; 8 bytes a cycle of the on-chip memory; tiles that a small one makes be read again; and the better dataflow.

// CHECK: dot_general {{.*}}latency_ns = 65918.0
// CHECK: stablehlo.add {{.*}}latency_ns = 3.200000e+01
// CLOCK: dot_general {{.*}}latency_ns = 32959.0
// CLOCK: stablehlo.add {{.*}}latency_ns = 1.600000e+01
// FIRST: dot_general {{.*}}latency_ns = 6.691800e+04
// CORES: dot_general {{.*}}latency_ns = 33150.1
// CORES: stablehlo.add {{.*}}latency_ns = 1.600000e+01
// ROWS: of 64 x 128 at
// ROWS: dot_general {{.*}}latency_ns = 131326.0
// COLUMNS: of 128 x 64 at
// COLUMNS: dot_general {{.*}}latency_ns = 131390.0
// FAST: dot_general {{.*}}latency_ns = 33150.0
// LANES: stablehlo.add {{.*}}latency_ns = 5.120000e+02
// ALUS: stablehlo.add {{.*}}latency_ns = 2.560000e+02
// READ: stablehlo.add {{.*}}latency_ns = 6.553600e+04
// WRITE: stablehlo.add {{.*}}latency_ns = 3.276800e+04
// SMALL: dot_general {{.*}}bound = "memory"{{.*}}latency_ns = 177{{[0-9]+[.]}}
// BEST: dot_general {{.*}}latency_ns = 65790.0
// PRESET: stablehlo.add {{.*}}latency_ns = 1.600000e+01
func.func @main(%a: tensor<1024x1024xbf16>, %x: tensor<65536xf32>) -> (tensor<1024x1024xbf16>, tensor<65536xf32>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  %1 = stablehlo.add %x, %x : tensor<65536xf32>
  return %0, %1 : tensor<1024x1024xbf16>, tensor<65536xf32>
}
