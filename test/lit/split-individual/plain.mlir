// RUN: hespas-opt %s --split-individual --split-input-file | filecheck %s

/// Each compute op is a region where it stands; constants, collectives and the return are none, and
/// equal ops have one digest.

// CHECK-LABEL: module @ops
// CHECK-SAME: hespas.split = {strategy = "individual"}
module @ops attributes {mhlo.num_replicas = 2 : i32} {
  // CHECK: stablehlo.constant dense<1.{{.*}}> : tensor<8xf32>
  // CHECK: stablehlo.add {{.*}}digest = "[[D:[0-9a-f]+]]", id = 0 : i64}
  // CHECK-NEXT: "stablehlo.all_gather"
  // CHECK: stablehlo.add {{.*}}digest = "[[D]]", id = 1
  // CHECK-NEXT: stablehlo.tanh {{.*}}id = 2
  // CHECK-NOT: func.func
  func.func @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %x, %one : tensor<8xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %2 = stablehlo.add %x, %one : tensor<8xf32>
    %3 = stablehlo.tanh %2 : tensor<8xf32>
    return %1, %3 : tensor<16xf32>, tensor<8xf32>
  }
}

// -----

/// An empty program is split.

// CHECK-LABEL: module @empty
// CHECK-SAME: hespas.split
// CHECK-NOT: hespas.region
module @empty {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
