// RUN: hespas-opt %s --split-linear | filecheck %s
// RUN: hespas-opt %s --split-linear=block-limit=2 | filecheck %s --check-prefix=LIMIT

/// Two runs of compute around a collective; the equal runs are one function. A constant that two
/// regions read is cloned into the function, not passed.

// CHECK: module @m attributes {
// CHECK-SAME: hespas.split = {strategy = "linear"}
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-LABEL: func.func public @main
  // CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
  // CHECK-NEXT: %[[A:.*]] = call @[[R:region_0]](%[[X]]) {hespas.region = {digest = "[[D:[0-9a-f]+]]", id = 0 : i64, ops = 3 : i64}}
  // CHECK-NEXT: %[[B:.*]] = "stablehlo.all_reduce"(%[[A]])
  // CHECK: hespas.comm = {
  // CHECK: %[[C:.*]] = call @[[R]](%[[B]]) {hespas.region = {digest = "[[D]]", id = 1 : i64, ops = 3 : i64}}
  // CHECK-NEXT: return %[[C]]

  // LIMIT-LABEL: func.func public @main
  // LIMIT: call @[[F:region_0]]({{.*}}ops = 2 : i64
  // LIMIT: stablehlo.negate {{.*}}hespas.region = {{{.*}}id = 1 : i64}
  // LIMIT: "stablehlo.all_reduce"
  // LIMIT: call @[[F]]({{.*}}id = 2 : i64, ops = 2 : i64
  // LIMIT: stablehlo.negate
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %x, %one : tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    %2 = stablehlo.negate %1 : tensor<8xf32>
    %3 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %4 = stablehlo.add %3, %one : tensor<8xf32>
    %5 = stablehlo.tanh %4 : tensor<8xf32>
    %6 = stablehlo.negate %5 : tensor<8xf32>
    return %6 : tensor<8xf32>
  }
  // CHECK: func.func private @[[R]](%[[P:.*]]: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.region = {digest = "[[D]]", id = 0 : i64, ops = 3 : i64}}
  // CHECK-NEXT: %[[ONE:.*]] = stablehlo.constant
  // CHECK-NEXT: stablehlo.add %[[P]], %[[ONE]]
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: return
}
