// RUN: hespas-opt %s --write-trip-counts --choose-branches 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB -o %t 2> %t.err
// RUN: sed "s/dense<3>/dense<5>/" %t | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=EDITED
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB 2>&1 | filecheck %s --check-prefix=WARNING

/// A loop that another pass has put into a fusion runs as often as elsewhere, and so does a branch: what is found
/// follows the ops. Loops of data are assumed to run once.

// CHECK-LABEL: module @counted
// CHECK: stablehlo.while
// CHECK-SAME: attributes {hespas.trips = 3 : i64, hespas.trips_found = 3 : i64}
// CHECK: "stablehlo.if"
// CHECK: {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64}
// CHECK: stablehlo.while
// CHECK-SAME: trips_note = "trip count 1 assumed: it depends on data"
// EDITED: hespas.trips is brought up to date: stablehlo.while (<stdin>:{{[0-9]+}}:{{[0-9]+}}): 3 to 5
// EDITED: changed after the annotation: estimated again by roofline-annotate
// EDITED: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64
// WARNING: warning: {{.*}}the trip count of the loop depends on data: 1 is assumed
module @counted {
  func.func @main(%x: tensor<64xf32>, %p: tensor<i1>) -> tensor<64xf32> {
    %0 = "mhlo.fusion"(%x, %p) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<64xf32>, %q: tensor<i1>):
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %bound = stablehlo.constant dense<3> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1:2 = stablehlo.while(%i = %zero, %y = %a) : tensor<i32>, tensor<64xf32>
      cond {
        %less = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      } do {
        %z = stablehlo.sine %y : tensor<64xf32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %z : tensor<i32>, tensor<64xf32>
      }
      %2 = "stablehlo.if"(%q) ({
        stablehlo.return %1#1 : tensor<64xf32>
      }, {
        %t = stablehlo.tanh %1#1 : tensor<64xf32>
        stablehlo.return %t : tensor<64xf32>
      }) : (tensor<i1>) -> tensor<64xf32>
      %3:2 = stablehlo.while(%b = %2, %r = %q) : tensor<64xf32>, tensor<i1>
      cond {
        stablehlo.return %r : tensor<i1>
      } do {
        stablehlo.return %b, %r : tensor<64xf32>, tensor<i1>
      }
      mhlo.return %3#0 : tensor<64xf32>
    }) : (tensor<64xf32>, tensor<i1>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
