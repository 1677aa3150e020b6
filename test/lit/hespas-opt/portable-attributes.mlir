// RUN: hespas-opt %s --prepare=trip-count=8 --split-linear --memory-annotate --on-chip-annotate '--roofline-annotate=node=A100_SXM_40GB,kernel-cost=acme=100:200' -o %t.annotated
// RUN: filecheck %s --input-file %t.annotated
// RUN: hespas-opt %t.annotated --stablehlo-legalize-to-vhlo --vhlo-to-version=target=1.14.0 --emit-bytecode -o %t.artifact
// RUN: hespas-opt %t.annotated --emit-chakra=output=%t.text --disable-output
// RUN: hespas-opt %t.artifact --emit-chakra=output=%t.portable --disable-output 2>&1 | filecheck %s --check-prefix=NOTHING --allow-empty
// RUN: diff %t.text/module_stats.json %t.portable/module_stats.json
// RUN: hespas-opt %t.annotated --stablehlo-legalize-to-vhlo --vhlo-legalize-to-stablehlo --refresh-costs --disable-output 2>&1 | filecheck %s --check-prefix=NOTHING --allow-empty

/// A portable artifact holds all attributes of hespas on StableHLO, and nothing is stale in it: only its lists
/// have another form.

// NOTHING-NOT: {{.}}
// CHECK: hespas.communicators = {"1" = array<i64: 0, 1>}, hespas.facts = {flops_per_step
// CHECK-SAME: hespas.memory = {
// CHECK-SAME: hespas.on_chip_program = "
// CHECK-SAME: hespas.split = {
// CHECK-SAME: hespas.target = {
// CHECK: hespas.comm = {groups = array<i64: 1>, is_async = true}
// CHECK: call @region_1(%{{[^)]*}}) {hespas.cost = {{.*}}, hespas.region = {
// CHECK: stablehlo.optimization_barrier {hespas.wait = true}
// CHECK: {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64,
// CHECK: stablehlo.while
// CHECK-SAME: hespas.trips = 8 : i64, hespas.trips_note = "
// CHECK: stablehlo.custom_call @acme
// CHECK-SAME: hespas.kernel_cost = {
// CHECK: func.func private @twice
// CHECK-NEXT: hespas.on_chip = {read_bytes = array<i64:
module @all attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32, hespas.facts = {flops_per_step = 2.0e30 : f64, parameters = 5 : i64, scheduler = "memory"}} {
  func.func public @main(%x: tensor<64x64xf32>, %p: tensor<i1>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %s = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<64x64xf32>):
      %c = "stablehlo.all_to_all"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> : (tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %c : tensor<64x64xf32>
    }) : (tensor<64x64xf32>) -> !stablehlo.future<tensor<64x64xf32>>
    %t = call @twice(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %u = call @twice(%t) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %d = "stablehlo.async_done"(%s) : (!stablehlo.future<tensor<64x64xf32>>) -> tensor<64x64xf32>
    %b = "stablehlo.if"(%p) ({
      %e = stablehlo.exponential %u : tensor<64x64xf32>
      stablehlo.return %e : tensor<64x64xf32>
    }, {
      stablehlo.return %u : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    %l:2 = stablehlo.while(%v = %b, %q = %p) : tensor<64x64xf32>, tensor<i1>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %w = stablehlo.custom_call @acme(%v) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      %y = "stablehlo.collective_permute"(%w) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>}> : (tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %y, %q : tensor<64x64xf32>, tensor<i1>
    }
    return %l#0, %d : tensor<64x64xf32>, tensor<64x64xf32>
  }
  func.func private @twice(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.add %0, %x : tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}
