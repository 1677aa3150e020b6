// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB > %t
// RUN: hespas-opt %t --sdy-import-pipeline --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --sdy-import-pipeline --refresh-costs 2>&1 | filecheck %s

/// Shardy turns the bounds of loops into constants of its own, which are still known.
// CHECK-NOT: assumed
// CHECK: stablehlo.while
// CHECK-SAME: hespas.trips = 12 : i64
// CHECK-NOT: sdy.
module attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %bound = stablehlo.constant dense<12> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}
