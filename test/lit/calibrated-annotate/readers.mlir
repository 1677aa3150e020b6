// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s
// RUN: hespas-opt %s --split-individual --calibrated-annotate=node=H100_80GB | filecheck %s
// RUN: hespas-opt %s --split-linear=block-limit=2 --calibrated-annotate=node=H100_80GB | filecheck %s --check-prefix=REGIONS

/// Of equal sorts, and of equal fusions with a sort, each has the cost that its own readers give it: positions that make
/// it stable and that nothing reads do not count.

// CHECK-COUNT-2: }) {hespas.cost = {{.*}} latency_ns = 64726{{.*}} -> (tensor<16777216xf32>, tensor<16777216xi32>)
// CHECK: }) {hespas.cost = {{.*}} latency_ns = 638260{{.*}} -> (tensor<16777216xf32>, tensor<16777216xi32>)
// CHECK: }) {hespas.cost = {{.*}} latency_ns = 64726{{.*}} hespas.kernel
// CHECK: }) {hespas.cost = {{.*}} latency_ns = 63826{{.*}} hespas.kernel

// REGIONS: latency_ns = 129453{{.*}}
// REGIONS: latency_ns = 128552{{.*}}
// REGIONS: latency_ns = 63826{{.*}}

!keys = tensor<16777216xf32>
!positions = tensor<16777216xi32>
func.func @main(%x: !keys, %p: !positions) -> (!keys, !positions, !keys, !positions, !keys, !keys, !positions, !keys) {
  %a:2 = "stablehlo.sort"(%x, %p) <{dimension = 0 : i64}> ({
  ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
    %less = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %equal = stablehlo.compare EQ, %less, %more : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %first = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.select %equal, %first, %less : tensor<i1>, tensor<i1>
    stablehlo.return %r : tensor<i1>
  }) : (!keys, !positions) -> (!keys, !positions)
  %b:2 = "stablehlo.sort"(%a#0, %p) <{dimension = 0 : i64}> ({
  ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
    %less = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %equal = stablehlo.compare EQ, %less, %more : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %first = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.select %equal, %first, %less : tensor<i1>, tensor<i1>
    stablehlo.return %r : tensor<i1>
  }) : (!keys, !positions) -> (!keys, !positions)
  %c:2 = "stablehlo.sort"(%b#0, %p) <{dimension = 0 : i64}> ({
  ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
    %less = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %equal = stablehlo.compare EQ, %less, %more : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %first = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.select %equal, %first, %less : tensor<i1>, tensor<i1>
    stablehlo.return %r : tensor<i1>
  }) : (!keys, !positions) -> (!keys, !positions)
  %d:2 = "mhlo.fusion"(%c#0, %p) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%k: !keys, %q: !positions):
    %s:2 = "stablehlo.sort"(%k, %q) <{dimension = 0 : i64}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
      %less = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %more = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %equal = stablehlo.compare EQ, %less, %more : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %first = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = stablehlo.select %equal, %first, %less : tensor<i1>, tensor<i1>
      stablehlo.return %r : tensor<i1>
    }) : (!keys, !positions) -> (!keys, !positions)
    mhlo.return %s#0, %s#1 : !keys, !positions
  }) : (!keys, !positions) -> (!keys, !positions)
  %e:2 = "mhlo.fusion"(%d#0, %p) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%k: !keys, %q: !positions):
    %s:2 = "stablehlo.sort"(%k, %q) <{dimension = 0 : i64}> ({
    ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<i32>, %b1: tensor<i32>):
      %less = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %more = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %equal = stablehlo.compare EQ, %less, %more : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %first = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = stablehlo.select %equal, %first, %less : tensor<i1>, tensor<i1>
      stablehlo.return %r : tensor<i1>
    }) : (!keys, !positions) -> (!keys, !positions)
    mhlo.return %s#0, %s#1 : !keys, !positions
  }) : (!keys, !positions) -> (!keys, !positions)
  return %a#0, %a#1, %b#0, %b#1, %c#0, %d#0, %d#1, %e#0 : !keys, !positions, !keys, !positions, !keys, !keys, !positions, !keys
}
