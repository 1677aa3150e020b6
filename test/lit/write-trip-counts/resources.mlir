// RUN: hespas-opt %s --write-trip-counts | filecheck %s
// RUN: hespas-opt %s --mlir-elide-resource-strings-if-larger=1 | hespas-opt --write-trip-counts 2>&1 | filecheck %s --check-prefix=ELIDED

/// Bounds and elements in the resources of a module are read, unless a printer has left them out.

// CHECK: stablehlo.while{{.*}}hespas.trips = 7 : i64, hespas.trips_found = 7
// CHECK: stablehlo.while{{.*}}hespas.trips = 7 : i64
// CHECK: stablehlo.while{{.*}}hespas.trips = 4 : i64
// ELIDED: the trip count of the loop depends on data: 1 is assumed
// ELIDED: hespas.trips = 1 : i64, hespas.trips_note
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense_resource<bound> : tensor<i32>
    %all = stablehlo.constant dense_resource<bounds> : tensor<2xi32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %a = stablehlo.sine %y : tensor<8xf32>
      stablehlo.return %j, %a : tensor<i32>, tensor<8xf32>
    }
    %1:2 = stablehlo.while(%i = %zero, %y = %0#1) : tensor<i32>, tensor<8xf32> cond {
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %at = stablehlo.dynamic_slice %all, %zero, sizes = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<1xi32>
      %bound = stablehlo.reshape %at : (tensor<1xi32>) -> tensor<i32>
      %b:2 = stablehlo.while(%k = %zero, %z = %y) : tensor<i32>, tensor<8xf32> cond {
        %lt = stablehlo.compare LT, %k, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %lt : tensor<i1>
      } do {
        %l = stablehlo.add %k, %one : tensor<i32>
        %c = stablehlo.cosine %z : tensor<8xf32>
        stablehlo.return %l, %c : tensor<i32>, tensor<8xf32>
      }
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %b#1 : tensor<i32>, tensor<8xf32>
    }
    return %1#1 : tensor<8xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      bound: "0x0400000007000000",
      bounds: "0x040000000400000009000000"
    }
  }
#-}
