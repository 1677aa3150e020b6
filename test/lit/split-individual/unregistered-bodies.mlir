// RUN: hespas-opt %s --allow-unregistered-dialect --split-individual=merge | filecheck %s

/// The bodies of ops of unknown dialects count: what they read is an input of their region, which therefore follows the
/// collective, and ops with other bodies are other regions.

// CHECK: @main
// CHECK: %[[SUM:.+]] = "stablehlo.all_reduce"
// CHECK: call @region_0(%{{.+}}, %[[SUM]])
// CHECK: func.func private @region_0(%[[X:.+]]: tensor<4xf32>, %[[Y:.+]]: tensor<4xf32>)
// CHECK: "foo.bar"(%[[X]])
// CHECK-NEXT: "foo.end"(%[[Y]])
// CHECK: "foo.bar"
// CHECK-NEXT: "foo.start"(%[[Y]])
module @bodies attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %y = "stablehlo.all_reduce"(%x) ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
    %a = "foo.bar"(%x) ({
      "foo.end"(%y) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %b = "foo.bar"(%x) ({
      "foo.start"(%y) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %a, %b : tensor<4xf32>, tensor<4xf32>
  }
}
