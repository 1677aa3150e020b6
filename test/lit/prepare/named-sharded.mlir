// RUN: hespas-opt %s --prepare | filecheck %s

/// A sharded named computation is partitioned, also in a manual computation, and inlined.

// CHECK-LABEL: module @named_sharded
// CHECK: func.func @main(%[[X:.*]]: tensor<8x32xf32>)
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[X]], %[[X]] : tensor<8x32xf32>
// CHECK-NEXT: return %[[SUM]]
module @named_sharded {
  sdy.mesh @mesh = <["x"=2, "y"=1]>
  func.func @main(%a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<8x32xf32>) {
      %1 = sdy.named_computation<"f">(%b) in_shardings=[<@mesh, [{}, {"y"}]>] out_shardings=[<@mesh, [{}, {"y"}]>] (%c: tensor<8x32xf32>) {
        %2 = stablehlo.add %c, %c : tensor<8x32xf32>
        sdy.return %2 : tensor<8x32xf32>
      } : (tensor<8x32xf32>) -> tensor<8x32xf32>
      sdy.return %1 : tensor<8x32xf32>
    } : (tensor<16x32xf32>) -> tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }
}
