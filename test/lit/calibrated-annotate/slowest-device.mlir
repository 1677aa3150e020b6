// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %s --calibrated-annotate="node=B200_180GB job-devices=1" | filecheck %s --check-prefix=ONE
// RUN: hespas-opt %s --calibrated-annotate="node=B200_180GB job-devices=4096" | filecheck %s --check-prefix=MORE
// RUN: not hespas-opt %s --calibrated-annotate="node=B200_180GB job-devices=-1" 2>&1 | filecheck %s --check-prefix=NEGATIVE

/// The step waits for the slowest of the 64 devices of the program, unless the option says how many.

// CHECK: hespas.target = {constants = "B200_180GB, {{.*}}, slowest of 64 devices: 1.025 times at the power limit (1.1 % between boards of B200)"{{.*}}pipeline = "calibrated-annotate{node=B200_180GB}"
// OTHER: slowest of 64 devices: 1.026 times at the power limit (1.1 % between boards of V100, RTX PRO 6000, B200, transferred)
// ONE-NOT: slowest
// ONE: stablehlo.dot {{.*}}latency_ns = 793072.24
// MORE: slowest of 4096 devices{{.*}}pipeline = "calibrated-annotate{node=B200_180GB job-devices=4096}"
// NEGATIVE: setting 'job-devices' is -1, less than 0
module @m attributes {mhlo.num_partitions = 64 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-LABEL: func.func public @main
  func.func public @main(%a: tensor<8192x8192xbf16>, %b: tensor<128x128xbf16>) -> (tensor<8192x8192xbf16>, tensor<128x128xbf16>, tensor<8192x8192xbf16>) {
    /// A large product is at the limit. Nobody knows how slow the slowest of these devices is, which widens the band.
    // CHECK-NEXT: stablehlo.dot {{.*}}high_ns = 983438.59{{.*}}latency_ns = 812589.11{{.*}}low_ns = 715165.37{{.*}}slowest_device = 1.0246092{{[0-9]+}} : f64
    // MORE: stablehlo.dot {{.*}}slowest_device = 1.03807
    %0 = stablehlo.dot %a, %a : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
    /// A small one is not, and neither is a stream.
    // CHECK-NOT: slowest_device
    %1 = stablehlo.dot %b, %b : (tensor<128x128xbf16>, tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %2 = stablehlo.add %a, %a : tensor<8192x8192xbf16>
    return %0, %1, %2 : tensor<8192x8192xbf16>, tensor<128x128xbf16>, tensor<8192x8192xbf16>
  }
}
