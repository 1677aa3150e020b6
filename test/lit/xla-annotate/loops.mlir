// RUN: hespas-opt %s --split-linear --roofline-annotate="node=H100_80GB keep-going" --xla-annotate="device=cpu cache=none repetitions=3 keep-going" -o %t.mlir 2>&1 | filecheck %s --check-prefix=GAPS
// RUN: filecheck %s --input-file %t.mlir
// RUN: hespas-opt %t.mlir --refresh-costs | filecheck %s
// RUN: sed s/stablehlo.sine/stablehlo.cosine/ %t.mlir | not hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=STALE
// RUN: sed s/stablehlo.tanh/stablehlo.cosine/ %t.mlir | not hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=LOOP

/// A loop that is a region of its own is measured whole, and so is a function; what is inside loses the costs and the kinds
/// that another estimator has given it. Without a measurement the loop has a gap. Nothing is measured again unasked.

// GAPS: warning: 1 op without a full cost, first {{.*}}loops.mlir:{{[0-9]+}}:12: stablehlo.custom_call: custom call @nobody has no cost rule
// GAPS: warning: 1 op without a full cost, first {{.*}}loops.mlir:{{[0-9]+}}:12: stablehlo.while: {{.*}}XLA does not compile it
// STALE: error: 'func.func': hespas.cost is stale: the op changed after the annotation; run xla-annotate again: an estimator that measures does not run unasked
// LOOP: error: 'stablehlo.while': hespas.cost is stale: the op changed after the annotation
// CHECK: stablehlo.while
// CHECK-SAME: hespas.cost = {bound = "measured"
// CHECK-NOT: hespas.cost
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.while
// CHECK-SAME: hespas.cost = {{.*}}gap =
// CHECK: "stablehlo.all_reduce"
// CHECK: call @region_{{[0-9]+}}{{.*}}hespas.cost = {bound = "measured"
// CHECK: func.func private @region_
// CHECK-SAME: hespas.cost = {bound = "measured"
// CHECK-NOT: hespas.cost
// CHECK-NOT: hespas.kernel
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64x64xf32>, %p: tensor<i1>) -> tensor<64x64xf32> {
    %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<64x64xf32>, tensor<i1> attributes {hespas.trips = 3 : i64}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %t = stablehlo.tanh %a : tensor<64x64xf32>
      stablehlo.return %t, %q : tensor<64x64xf32>, tensor<i1>
    }
    %1 = "stablehlo.all_reduce"(%0#0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %2:2 = stablehlo.while(%a = %1, %q = %p) : tensor<64x64xf32>, tensor<i1> attributes {hespas.trips = 3 : i64}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %t = stablehlo.custom_call @nobody(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %t, %q : tensor<64x64xf32>, tensor<i1>
    }
    %3 = "stablehlo.all_reduce"(%2#0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %4 = "mhlo.fusion"(%3) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<64x64xf32>):
      %b = stablehlo.sine %a : tensor<64x64xf32>
      mhlo.return %b : tensor<64x64xf32>
    }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.negate %4 : tensor<64x64xf32>
    return %5 : tensor<64x64xf32>
  }
}
