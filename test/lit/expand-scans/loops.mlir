// RUN: hespas-opt %s --expand-scans --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-scans --expand-scans --split-input-file | filecheck %s

/// XLA has no kernel for a scan: it makes a loop with a trip for each element of the dimension
/// (xla/hlo/transforms/expanders/scan_expander.cc). A running sum that starts from a value is what the partitioner makes
/// of `jnp.cumsum` where its dimension is divided.

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: func.func @main(%arg0: tensor<512x64xf32>, %arg1: tensor<64xf32>)
  // CHECK: [[LOOP:%.*]]:3 = stablehlo.while({{.*}} = %arg1, {{.*}}) : tensor<i64>, tensor<64xf32>, tensor<512x64xf32> attributes {hespas.trips = 512 : i64, hespas.trips_found = 512 : i64}
  // CHECK-NOT: stablehlo.subtract
  // CHECK: [[ROW:%.*]] = stablehlo.dynamic_slice %arg0, [[TRIP:%.*]], %{{.*}}, sizes = [1, 64]
  // CHECK: [[INPUT:%.*]] = stablehlo.reshape [[ROW]] : (tensor<1x64xf32>) -> tensor<64xf32>
  // CHECK: [[SUM:%.*]] = stablehlo.add [[INPUT]], %{{.*}} : tensor<64xf32>
  // CHECK: [[PART:%.*]] = stablehlo.reshape [[SUM]] : (tensor<64xf32>) -> tensor<1x64xf32>
  // CHECK: stablehlo.dynamic_update_slice %{{.*}}, [[PART]], [[TRIP]],
  // CHECK-NOT: mhlo.scan
  // CHECK: return [[LOOP]]#2, [[LOOP]]#1
  func.func @main(%x: tensor<512x64xf32>, %start: tensor<64xf32>) -> (tensor<512x64xf32>, tensor<64xf32>) {
    %0:2 = mhlo.scan(%x) inits (%start) dimension=0 attributes {is_associative = true, is_reverse = false} {
    ^bb0(%input: tensor<64xf32>, %carry: tensor<64xf32>):
      %1 = stablehlo.add %input, %carry : tensor<64xf32>
      mhlo.return %1, %1 : tensor<64xf32>, tensor<64xf32>
    } : (tensor<512x64xf32>, tensor<64xf32>) -> (tensor<512x64xf32>, tensor<64xf32>)
    return %0#0, %0#1 : tensor<512x64xf32>, tensor<64xf32>
  }
}

// -----

/// What nothing reads is not carried: here, the sums on the way.

// CHECK-LABEL: module @last
module @last {
  // CHECK: stablehlo.while({{.*}}) : tensor<i64>, tensor<64xbf16> attributes {hespas.trips = 16 : i64, hespas.trips_found = 16 : i64}
  // CHECK: [[FIRST:%.*]] = stablehlo.constant dense<0> : tensor<i64>
  // CHECK-NEXT: stablehlo.dynamic_slice %arg0, [[FIRST]], %{{.*}}, sizes = [64, 1]
  // CHECK-NOT: dynamic_update_slice
  // CHECK: return
  func.func @main(%x: tensor<64x16xbf16>, %start: tensor<64xbf16>) -> tensor<64xbf16> {
    %0:2 = mhlo.scan(%x) inits (%start) dimension=1 attributes {is_associative = true} {
    ^bb0(%input: tensor<64xbf16>, %carry: tensor<64xbf16>):
      %1 = stablehlo.add %input, %carry : tensor<64xbf16>
      mhlo.return %1, %1 : tensor<64xbf16>, tensor<64xbf16>
    } : (tensor<64x16xbf16>, tensor<64xbf16>) -> (tensor<64x16xbf16>, tensor<64xbf16>)
    return %0#1 : tensor<64xbf16>
  }
}

// -----

/// A body of several ops, of two inputs; from the last element on.

// CHECK-LABEL: module @recurrence
module @recurrence {
  // CHECK: stablehlo.while
  // CHECK: [[LAST:%.*]] = stablehlo.constant dense<31> : tensor<i64>
  // CHECK: [[PLACE:%.*]] = stablehlo.subtract [[LAST]], %iterArg : tensor<i64>
  // CHECK: stablehlo.dynamic_slice %arg0, [[PLACE]],
  // CHECK: stablehlo.dynamic_slice %arg1, [[PLACE]],
  // CHECK: [[KEPT:%.*]] = stablehlo.multiply %{{.*}}, %iterArg_{{.*}} : tensor<8xf32>
  // CHECK: stablehlo.add %{{.*}}, [[KEPT]] : tensor<8xf32>
  // CHECK: stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, [[PLACE]],
  func.func @main(%a: tensor<32x8xf32>, %x: tensor<32x8xf32>, %start: tensor<8xf32>) -> tensor<32x8xf32> {
    %0:2 = mhlo.scan(%a, %x) inits (%start) dimension=0 attributes {is_associative = false, is_reverse = true} {
    ^bb0(%decay: tensor<8xf32>, %input: tensor<8xf32>, %carry: tensor<8xf32>):
      %1 = stablehlo.multiply %decay, %carry : tensor<8xf32>
      %2 = stablehlo.add %input, %1 : tensor<8xf32>
      mhlo.return %2, %2 : tensor<8xf32>, tensor<8xf32>
    } : (tensor<32x8xf32>, tensor<32x8xf32>, tensor<8xf32>) -> (tensor<32x8xf32>, tensor<8xf32>)
    return %0#0 : tensor<32x8xf32>
  }
}

// -----

/// One that starts from zero is a window, and no loop; so is a program without scans none.

// CHECK-LABEL: module @window
module @window {
  // CHECK-NOT: while
  // CHECK: reduce_window
  // CHECK-NOT: while
  func.func @main(%x: tensor<512xf32>) -> tensor<512xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = chlo.scan(%x) inits (%zero) dimension=0 attributes {is_associative = true, is_reverse = false} {
    ^bb0(%input: tensor<f32>, %carry: tensor<f32>):
      %1 = stablehlo.add %input, %carry : tensor<f32>
      stablehlo.return %1, %1 : tensor<f32>, tensor<f32>
    } : (tensor<512xf32>, tensor<f32>) -> (tensor<512xf32>, tensor<f32>)
    return %0#0 : tensor<512xf32>
  }
}

// -----

/// Results of any type start from zeros.

// CHECK-LABEL: module @types
module @types {
  // CHECK-DAG: stablehlo.constant dense<false> : tensor<4xi1>
  // CHECK-DAG: stablehlo.constant dense<0> : tensor<4xi32>
  // CHECK-DAG: stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<4xcomplex<f32>>
  // CHECK: stablehlo.while
  // CHECK-COUNT-3: stablehlo.dynamic_update_slice
  func.func @main(%x: tensor<4xcomplex<f32>>, %n: tensor<4xi32>, %start: tensor<i32>) -> (tensor<4xi1>, tensor<4xi32>, tensor<4xcomplex<f32>>) {
    %0:4 = mhlo.scan(%x, %n) inits (%start) dimension=0 attributes {is_associative = false} {
    ^bb0(%input: tensor<complex<f32>>, %number: tensor<i32>, %carry: tensor<i32>):
      %1 = stablehlo.compare LT, %number, %carry : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %2 = stablehlo.add %number, %carry : tensor<i32>
      %3 = stablehlo.multiply %input, %input : tensor<complex<f32>>
      mhlo.return %1, %2, %3, %2 : tensor<i1>, tensor<i32>, tensor<complex<f32>>, tensor<i32>
    } : (tensor<4xcomplex<f32>>, tensor<4xi32>, tensor<i32>) -> (tensor<4xi1>, tensor<4xi32>, tensor<4xcomplex<f32>>, tensor<i32>)
    return %0#0, %0#1, %0#2 : tensor<4xi1>, tensor<4xi32>, tensor<4xcomplex<f32>>
  }
}

// -----

/// Several results and values that are carried keep their order.

// CHECK-LABEL: module @several
module @several {
  // CHECK: func.func @main(%[[X:.*]]: tensor<16x4xf32>, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
  // CHECK: [[LOOP:%.*]]:5 = stablehlo.while([[I:%.*]] = %{{.*}}, [[P:%.*]] = %[[A]], [[Q:%.*]] = %[[B]], [[U:%.*]] = %{{.*}}, [[V:%.*]] = %{{.*}})
  // CHECK: [[INPUT:%.*]] = stablehlo.reshape
  // CHECK: [[SUM:%.*]] = stablehlo.add [[INPUT]], [[P]] : tensor<4xf32>
  // CHECK: [[PRODUCT:%.*]] = stablehlo.multiply [[INPUT]], [[Q]] : tensor<4xf32>
  // CHECK: [[NEXT:%.*]] = stablehlo.add [[I]],
  // CHECK-NEXT: stablehlo.return [[NEXT]], [[SUM]], [[PRODUCT]], %{{.*}}, %{{.*}}
  // CHECK: return [[LOOP]]#3, [[LOOP]]#4, [[LOOP]]#1, [[LOOP]]#2
  func.func @main(%x: tensor<16x4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<16x4xf32>, tensor<16x4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0:4 = mhlo.scan(%x) inits (%a, %b) dimension=0 attributes {is_associative = false} {
    ^bb0(%input: tensor<4xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>):
      %1 = stablehlo.add %input, %p : tensor<4xf32>
      %2 = stablehlo.multiply %input, %q : tensor<4xf32>
      mhlo.return %1, %2, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    } : (tensor<16x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<16x4xf32>, tensor<16x4xf32>, tensor<4xf32>, tensor<4xf32>)
    return %0#0, %0#1, %0#2, %0#3 : tensor<16x4xf32>, tensor<16x4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
