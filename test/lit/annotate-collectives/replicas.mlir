// RUN: hespas-opt %s --annotate-collectives=replicas=2 --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives=replicas=2 --annotate-collectives=replicas=2 --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives=replicas=2 --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives=replicas=2 --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=NOTE
// RUN: hespas-opt %s --annotate-collectives=replicas=1 --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=ONE
// RUN: hespas-opt %s --annotate-collectives=replicas=3 --annotate-collectives=replicas=3 --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=TWICE

// NOTE-COUNT-2: note: 2 devices run the program of one device without communication
// NOTE: warning: builtin.module ({{.*}}): replicas=2 is for a program of one device, and the module is for 1 x 3 devices (replicas x partitions), which it keeps
// NOTE: note: 2 devices run the program of one device without communication
// NOTE-NOT: note
// NOTE-NOT: warning
// ONE-NOT: note
// ONE: warning: {{.*}} replicas=1 is for a program of one device
// ONE-NOT: note
// ONE-NOT: warning
// TWICE-NOT: warning

/// A program of one device runs on each of two devices.

// CHECK: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK-SAME: mhlo.num_replicas = 2 : i32
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

/// A collective of the one device is one of each device with itself.

// CHECK: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK: replica_groups = dense<{{\[\[}}0], [1]]> : tensor<2x1xi64>
// CHECK: hespas.comm = {}
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// A program of other devices stays as it is, with a warning.

// CHECK: hespas.target = {devices = 3 : i64, partitions = 3 : i64, replicas = 1 : i64}
module attributes {mhlo.num_partitions = 3 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

/// A permute names no groups.

// CHECK: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK: "stablehlo.collective_permute"
// CHECK-NOT: replica_groups
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
