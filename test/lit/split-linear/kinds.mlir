// RUN: hespas-opt %s --split-linear | filecheck %s

/// A barrier that waits for nothing, and a constant of many numbers, are ops of a region like others.

// CHECK: func.func @main
// CHECK-NEXT: call @region_0(%arg0) {{.*}}ops = 6 : i64
// CHECK-NEXT: return
// CHECK: func.func private @region_0
// CHECK-NEXT: stablehlo.constant
// CHECK-NEXT: stablehlo.add
// CHECK-NEXT: stablehlo.optimization_barrier
module @kinds {
  func.func @main(%x: tensor<65xf32>) -> (tensor<65xf32>, tensor<65xbf16>, tensor<65xf16>, tensor<65xbf16>) {
    %c = stablehlo.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0, 40.0, 41.0, 42.0, 43.0, 44.0, 45.0, 46.0, 47.0, 48.0, 49.0, 50.0, 51.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0, 60.0, 61.0, 62.0, 63.0, 64.0]> : tensor<65xf32>
    %0 = stablehlo.add %x, %c : tensor<65xf32>
    %b = stablehlo.optimization_barrier %0 : tensor<65xf32>
    %1 = stablehlo.convert %b : (tensor<65xf32>) -> tensor<65xbf16>
    %2 = stablehlo.convert %b : (tensor<65xf32>) -> tensor<65xf16>
    %3 = stablehlo.convert %x : (tensor<65xf32>) -> tensor<65xbf16>
    return %0, %1, %2, %3 : tensor<65xf32>, tensor<65xbf16>, tensor<65xf16>, tensor<65xbf16>
  }
}
