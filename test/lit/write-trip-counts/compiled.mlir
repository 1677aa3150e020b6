// RUN: hespas-opt %s --write-trip-counts --split-input-file 2>&1 | filecheck %s

/// XLA makes kernels of the condition and of the step of a counter, copies it, and unrolls loops. Their counts are
/// solved all the same: to run a million iterations takes too long.

// CHECK: stablehlo.while
// CHECK-SAME: {hespas.trips = 1000000 : i64, hespas.trips_found = 1000000 : i64}
// CHECK: stablehlo.while
// CHECK-SAME: {hespas.trips = 400000 : i64, hespas.trips_found = 400000 : i64}
// CHECK: stablehlo.while
// CHECK-SAME: trips_note = "trip count 1 assumed: it depends on data"
module @compiled {
  func.func private @advance(%i: tensor<i32>) -> tensor<i32> {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %next = stablehlo.add %two, %i : tensor<i32>
    return %next : tensor<i32>
  }
  func.func @main(%x: tensor<64xf32>, %n: tensor<i32>) -> (tensor<64xf32>, tensor<i32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64xf32>
    cond {
      %less = "mhlo.fusion"(%i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%j: tensor<i32>):
        %bound = stablehlo.constant dense<1000000> : tensor<i32>
        %1 = stablehlo.compare LT, %j, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        mhlo.return %1 : tensor<i1>
      }) : (tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %both:2 = "mhlo.fusion"(%y, %i) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%a: tensor<64xf32>, %j: tensor<i32>):
        %one = stablehlo.constant dense<1> : tensor<i32>
        %1 = stablehlo.sine %a : tensor<64xf32>
        %2 = stablehlo.add %j, %one : tensor<i32>
        mhlo.return %1, %2 : tensor<64xf32>, tensor<i32>
      }) : (tensor<64xf32>, tensor<i32>) -> (tensor<64xf32>, tensor<i32>)
      stablehlo.return %both#1, %both#0 : tensor<i32>, tensor<64xf32>
    }
    %3 = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %bound = stablehlo.constant dense<2000000> : tensor<i32>
      %less = stablehlo.compare GT, %bound, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %4 = func.call @advance(%i) : (tensor<i32>) -> tensor<i32>
      %5 = func.call @advance(%4) : (tensor<i32>) -> tensor<i32>
      %6 = stablehlo.add %5, %one : tensor<i32>
      %7 = mhlo.copy %6 : tensor<i32>
      stablehlo.return %7 : tensor<i32>
    }
    %8 = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %bound = stablehlo.constant dense<2000000> : tensor<i32>
      %less = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %4 = stablehlo.add %i, %n : tensor<i32>
      stablehlo.return %4 : tensor<i32>
    }
    return %0#1, %3, %8 : tensor<64xf32>, tensor<i32>, tensor<i32>
  }
}

// -----

/// The time of a simulation is a real number, also one that runs down. Few steps of such are run.

// CHECK-LABEL: module @times
// CHECK: stablehlo.while
// CHECK-SAME: {hespas.trips = 1000000 : i64, hespas.trips_found = 1000000 : i64}
// CHECK: stablehlo.while
// CHECK-SAME: {hespas.trips = 2000000 : i64, hespas.trips_found = 2000000 : i64}
// CHECK: stablehlo.while
// CHECK-SAME: {hespas.trips = 40 : i64, hespas.trips_found = 40 : i64}
// CHECK: stablehlo.while
// CHECK-SAME: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @times {
  func.func @main() -> (tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f64>
    %0 = stablehlo.while(%t = %zero) : tensor<f64>
    cond {
      %end = stablehlo.constant dense<250000.0> : tensor<f64>
      %less = stablehlo.compare LT, %t, %end : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %dt = stablehlo.constant dense<0.25> : tensor<f64>
      %next = stablehlo.add %t, %dt : tensor<f64>
      stablehlo.return %next : tensor<f64>
    }
    %start = stablehlo.constant dense<500000.0> : tensor<f32>
    %1 = stablehlo.while(%t = %start) : tensor<f32>
    cond {
      %end = stablehlo.constant dense<0.0> : tensor<f32>
      %more = stablehlo.compare GT, %t, %end : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %dt = stablehlo.constant dense<0.25> : tensor<f32>
      %next = stablehlo.subtract %t, %dt : tensor<f32>
      stablehlo.return %next : tensor<f32>
    }
    %2 = stablehlo.while(%t = %start) : tensor<f32>
    cond {
      %end = stablehlo.constant dense<500010.0> : tensor<f32>
      %less = stablehlo.compare LT, %t, %end : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %dt = stablehlo.constant dense<0.25> : tensor<f32>
      %next = stablehlo.add %t, %dt : tensor<f32>
      stablehlo.return %next : tensor<f32>
    }
    %3 = stablehlo.while(%t = %start) : tensor<f32>
    cond {
      %end = stablehlo.constant dense<500001.0> : tensor<f32>
      %more = stablehlo.compare NE, %t, %end : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %dt = stablehlo.constant dense<0.25> : tensor<f32>
      %next = stablehlo.add %t, %dt : tensor<f32>
      stablehlo.return %next : tensor<f32>
    }
    return %0, %1, %2, %3 : tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}
