// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB --keep-going --split-input-file | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB --keep-going --split-input-file | filecheck %s --check-prefix=A100
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5e --keep-going --split-input-file | filecheck %s --check-prefix=TPU

/// Products by their types and shapes. The numbers are those of the node's constants, and change with them.

/// Each type has the constants of its own measurements, or those of the next type that was measured.

// CHECK-LABEL: module @types
// A100-LABEL: module @types
// TPU-LABEL: module @types
module @types {
  func.func @main(%x0: tensor<2048x2048xbf16>, %y1: tensor<2048x2048xbf16>, %x2: tensor<2048x2048xf16>, %y3: tensor<2048x2048xf16>, %x4: tensor<2048x2048xf32>, %y5: tensor<2048x2048xf32>, %x6: tensor<2048x2048xf64>, %y7: tensor<2048x2048xf64>, %x8: tensor<2048x2048xf8E4M3FN>, %y9: tensor<2048x2048xf8E4M3FN>, %x10: tensor<2048x2048xf8E5M2>, %y11: tensor<2048x2048xf8E5M2>, %x12: tensor<2048x2048xf4E2M1FN>, %y13: tensor<2048x2048xf4E2M1FN>, %x14: tensor<2048x2048xi8>, %y15: tensor<2048x2048xi8>, %x16: tensor<2048x2048xi4>, %y17: tensor<2048x2048xi4>) -> (tensor<2048x2048xbf16>, tensor<2048x2048xf16>, tensor<2048x2048xf32>, tensor<2048x2048xf64>, tensor<2048x2048xf8E4M3FN>, tensor<2048x2048xf8E5M2>, tensor<2048x2048xf4E2M1FN>, tensor<2048x2048xi32>, tensor<2048x2048xi32>, tensor<2048x2048xf32>) {
    // CHECK: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 26132.1098
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 86201.0485
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 93518.3422
    %0 = stablehlo.dot_general %x0, %y1, contracting_dims = [1] x [0] : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 26132.1098
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 86201.0485
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 93518.3422
    %1 = stablehlo.dot_general %x2, %y3, contracting_dims = [1] x [0] : (tensor<2048x2048xf16>, tensor<2048x2048xf16>) -> tensor<2048x2048xf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 53995.5202{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 167577.4374{{.*}}tag = "transferred"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 100558.9666
    %2 = stablehlo.dot_general %x4, %y5, contracting_dims = [1] x [0] : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 428294.9638{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1098921.0437{{.*}}tag = "transferred"
    // TPU: stablehlo.dot_general{{.*}}gap = "stablehlo.dot_general: node TPUv5
    %3 = stablehlo.dot_general %x6, %y7, contracting_dims = [1] x [0] : (tensor<2048x2048xf64>, tensor<2048x2048xf64>) -> tensor<2048x2048xf64>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 17076.0363{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 81939.1687
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 93021.0338
    %4 = stablehlo.dot_general %x8, %y9, contracting_dims = [1] x [0] : (tensor<2048x2048xf8E4M3FN>, tensor<2048x2048xf8E4M3FN>) -> tensor<2048x2048xf8E4M3FN>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 17076.0363{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 81939.1687
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 93021.0338
    %5 = stablehlo.dot_general %x10, %y11, contracting_dims = [1] x [0] : (tensor<2048x2048xf8E5M2>, tensor<2048x2048xf8E5M2>) -> tensor<2048x2048xf8E5M2>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 16568.4513{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 80328.3275
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 92989.6811
    %6 = stablehlo.dot_general %x12, %y13, contracting_dims = [1] x [0] : (tensor<2048x2048xf4E2M1FN>, tensor<2048x2048xf4E2M1FN>) -> tensor<2048x2048xf4E2M1FN>
    /// Signed bytes, and half of them.
    // CHECK: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 16096.5201{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 51291.6180{{.*}}tag = "transferred"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 50536.3857
    %7 = stablehlo.dot_general %x14, %y15, contracting_dims = [1] x [0] : (tensor<2048x2048xi8>, tensor<2048x2048xi8>) -> tensor<2048x2048xi32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 2056931.7360{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 3527155.0046{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 48616.0998
    %8 = stablehlo.dot_general %x16, %y17, contracting_dims = [1] x [0] : (tensor<2048x2048xi4>, tensor<2048x2048xi4>) -> tensor<2048x2048xi32>
    /// Numbers whose product is not rounded to 19 bits.
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 426672.7370
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1092415.7227
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 551856.7627
    %9 = stablehlo.dot_general %x4, %y5, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2048x2048xbf16>, tensor<2048x2048xf16>, tensor<2048x2048xf32>, tensor<2048x2048xf64>, tensor<2048x2048xf8E4M3FN>, tensor<2048x2048xf8E5M2>, tensor<2048x2048xf4E2M1FN>, tensor<2048x2048xi32>, tensor<2048x2048xi32>, tensor<2048x2048xf32>
  }
}

// -----

/// cuBLAS copies what is not a multiple of 16 bytes: inner dimensions both operands, columns the right one and the result;
/// products narrower than a tile have no copies.

// CHECK-LABEL: module @alignment
// A100-LABEL: module @alignment
// TPU-LABEL: module @alignment
module @alignment {
  func.func @main(%x0: tensor<1024x1024xbf16>, %y1: tensor<1024x1024xbf16>, %x2: tensor<1024x1023xbf16>, %y3: tensor<1023x1024xbf16>, %y4: tensor<1024x1023xbf16>, %y5: tensor<1023x1023xbf16>, %x6: tensor<1024x7xbf16>, %y7: tensor<7x1024xbf16>, %x8: tensor<31x1023xbf16>, %x9: tensor<32x1023xbf16>, %x10: tensor<1024x1023xf32>, %y11: tensor<1023x1023xf32>, %x12: tensor<1024x1022xi8>, %y13: tensor<1022x1024xi8>, %x14: tensor<1024x1016xf8E4M3FN>, %y15: tensor<1016x1024xf8E4M3FN>, %x16: tensor<4x256x255xbf16>, %y17: tensor<4x255x255xbf16>) -> (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1023xbf16>, tensor<1024x1023xbf16>, tensor<1024x1024xbf16>, tensor<31x1024xbf16>, tensor<32x1024xbf16>, tensor<1024x1023xf32>, tensor<1024x1023xf32>, tensor<1024x1024xi32>, tensor<1024x1024xf8E4M3FN>, tensor<4x256x255xbf16>) {
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 6201.9270
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 15374.0427
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 14048.6208
    %0 = stablehlo.dot_general %x0, %y1, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 9010.9637{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 20074.0193{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 14037.6501
    %1 = stablehlo.dot_general %x2, %y3, contracting_dims = [1] x [0] : (tensor<1024x1023xbf16>, tensor<1023x1024xbf16>) -> tensor<1024x1024xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 9011.5180{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 20075.3531{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 14037.6501
    %2 = stablehlo.dot_general %x0, %y4, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1023xbf16>) -> tensor<1024x1023xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 10413.3065{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 22418.2396{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 14026.6898
    %3 = stablehlo.dot_general %x2, %y5, contracting_dims = [1] x [0] : (tensor<1024x1023xbf16>, tensor<1023x1023xbf16>) -> tensor<1024x1023xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 3471.7902
    // A100: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 5228.4236
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 4708.1790
    %4 = stablehlo.dot_general %x6, %y7, contracting_dims = [1] x [0] : (tensor<1024x7xbf16>, tensor<7x1024xbf16>) -> tensor<1024x1024xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 4146.4313
    // A100: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 7530.5821
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 4844.8649
    %5 = stablehlo.dot_general %x8, %y3, contracting_dims = [1] x [0] : (tensor<31x1023xbf16>, tensor<1023x1024xbf16>) -> tensor<31x1024xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 5597.2117{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 9968.3810{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 4850.6920
    %6 = stablehlo.dot_general %x9, %y3, contracting_dims = [1] x [0] : (tensor<32x1023xbf16>, tensor<1023x1024xbf16>) -> tensor<32x1024xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 12259.8842{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 25749.6504{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 15545.2791
    %7 = stablehlo.dot_general %x2, %y5, contracting_dims = [1] x [0] : (tensor<1024x1023xbf16>, tensor<1023x1023xbf16>) -> tensor<1024x1023xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 9910.3845{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 27102.4921{{.*}}tag = "transferred"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 20230.2826
    %8 = stablehlo.dot_general %x10, %y11, contracting_dims = [1] x [0] : (tensor<1024x1023xf32>, tensor<1023x1023xf32>) -> tensor<1024x1023xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 6794.1536{{.*}}tag = "assumed transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 13886.6736{{.*}}tag = "assumed transferred"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 10944.0621
    %9 = stablehlo.dot_general %x12, %y13, contracting_dims = [1] x [0] : (tensor<1024x1022xi8>, tensor<1022x1024xi8>) -> tensor<1024x1024xi32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 6225.7812{{.*}}tag = "assumed transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 14037.0797
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 13079.5544
    %10 = stablehlo.dot_general %x14, %y15, contracting_dims = [1] x [0] : (tensor<1024x1016xf8E4M3FN>, tensor<1016x1024xf8E4M3FN>) -> tensor<1024x1024xf8E4M3FN>
    // CHECK: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 5264.7047{{.*}}tag = "assumed"
    // A100: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 9101.1419{{.*}}tag = "assumed"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 3917.1821
    %11 = stablehlo.dot_general %x16, %y17, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x256x255xbf16>, tensor<4x255x255xbf16>) -> tensor<4x256x255xbf16>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1023xbf16>, tensor<1024x1023xbf16>, tensor<1024x1024xbf16>, tensor<31x1024xbf16>, tensor<32x1024xbf16>, tensor<1024x1023xf32>, tensor<1024x1023xf32>, tensor<1024x1024xi32>, tensor<1024x1024xf8E4M3FN>, tensor<4x256x255xbf16>
  }
}

// -----

/// What the tiles do not fill, the inner dimension, and the number of products.

// CHECK-LABEL: module @shapes
// A100-LABEL: module @shapes
// TPU-LABEL: module @shapes
module @shapes {
  func.func @main(%x0: tensor<128x128xbf16>, %y1: tensor<128x128xbf16>, %x2: tensor<128x8192xbf16>, %y3: tensor<8192x128xbf16>, %x4: tensor<1x4096xbf16>, %y5: tensor<4096x4096xbf16>, %x6: tensor<8x4096xbf16>, %x7: tensor<4096x4096xbf16>, %y8: tensor<4096x1xbf16>, %x9: tensor<8192x8192xbf16>, %y10: tensor<8192x8192xbf16>, %x11: tensor<64x256x64xbf16>, %y12: tensor<64x64x256xbf16>, %x13: tensor<1x4096xf32>, %y14: tensor<4096x4096xf32>, %x15: tensor<65536x4096xbf16>, %y16: tensor<4096x8192xbf16>, %x17: tensor<1x4096xi8>, %y18: tensor<4096x4096xi8>, %x19: tensor<16x4096xf8E4M3FN>, %y20: tensor<4096x4096xf8E4M3FN>) -> (tensor<128x128xbf16>, tensor<128x128xbf16>, tensor<1x4096xbf16>, tensor<8x4096xbf16>, tensor<4096x1xbf16>, tensor<8192x8192xbf16>, tensor<64x256x256xbf16>, tensor<1x4096xf32>, tensor<65536x8192xbf16>, tensor<1x4096xi32>, tensor<16x4096xf8E4M3FN>) {
    // CHECK: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2681.8946
    // A100: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 4447.7935
    // TPU: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 1829.5916
    %0 = stablehlo.dot_general %x0, %y1, contracting_dims = [1] x [0] : (tensor<128x128xbf16>, tensor<128x128xbf16>) -> tensor<128x128xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 6690.2947
    // A100: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 8625.3365
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 7696.2489
    %1 = stablehlo.dot_general %x2, %y3, contracting_dims = [1] x [0] : (tensor<128x8192xbf16>, tensor<8192x128xbf16>) -> tensor<128x128xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 16076.0130
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 27350.1864
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 49352.7992
    %2 = stablehlo.dot_general %x4, %y5, contracting_dims = [1] x [0] : (tensor<1x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<1x4096xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 16092.1697
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 27495.2116
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 49515.6391
    %3 = stablehlo.dot_general %x6, %y5, contracting_dims = [1] x [0] : (tensor<8x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8x4096xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 12332.2621{{.*}}tag = "extrapolated"
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 22011.3825{{.*}}tag = "extrapolated"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 49352.7992
    %4 = stablehlo.dot_general %x7, %y8, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x1xbf16>) -> tensor<4096x1xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 1557831.1611
    // A100: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 4175560.8398
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 5844869.5929
    %5 = stablehlo.dot_general %x9, %y10, contracting_dims = [1] x [0] : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 7000.5635{{.*}}tag = "extrapolated"
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 14091.2995{{.*}}tag = "extrapolated"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 19557.7311
    %6 = stablehlo.dot_general %x11, %y12, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<64x256x64xbf16>, tensor<64x64x256xbf16>) -> tensor<64x256x256xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 28894.3028{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 49653.2475{{.*}}tag = "transferred"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 97015.5984
    %7 = stablehlo.dot_general %x13, %y14, contracting_dims = [1] x [0] : (tensor<1x4096xf32>, tensor<4096x4096xf32>) -> tensor<1x4096xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 6515589.8557{{.*}}tag = "extrapolated"
    // A100: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 17051542.1653{{.*}}tag = "extrapolated"
    // TPU: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 23374503.3313
    %8 = stablehlo.dot_general %x15, %y16, contracting_dims = [1] x [0] : (tensor<65536x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<65536x8192xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 8973.9977{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 15764.6340{{.*}}tag = "transferred"
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25538.8457
    %9 = stablehlo.dot_general %x17, %y18, contracting_dims = [1] x [0] : (tensor<1x4096xi8>, tensor<4096x4096xi8>) -> tensor<1x4096xi32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 8815.6980{{.*}}tag = "transferred"
    // A100: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 16932.2633
    // TPU: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25697.0580
    %10 = stablehlo.dot_general %x19, %y20, contracting_dims = [1] x [0] : (tensor<16x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>) -> tensor<16x4096xf8E4M3FN>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<128x128xbf16>, tensor<128x128xbf16>, tensor<1x4096xbf16>, tensor<8x4096xbf16>, tensor<4096x1xbf16>, tensor<8192x8192xbf16>, tensor<64x256x256xbf16>, tensor<1x4096xf32>, tensor<65536x8192xbf16>, tensor<1x4096xi32>, tensor<16x4096xf8E4M3FN>
  }
}

// -----

/// A product that XLA compiles, with ops after it.

// CHECK-LABEL: module @compiled
// A100-LABEL: module @compiled
// TPU-LABEL: module @compiled
module @compiled {
  func.func @main(%x0: tensor<1024x1024xbf16>, %y1: tensor<1024x1024xbf16>, %y2: tensor<1024x1000xbf16>, %x3: tensor<1024x1024xf32>, %y4: tensor<1024x1024xf32>, %x5: tensor<16x16384xbf16>, %y6: tensor<16384x16384xbf16>, %x7: tensor<16384x16384xbf16>) -> (tensor<1024x1024xbf16>, tensor<1024x1000xbf16>, tensor<1024x1024xf32>, tensor<16x16384xbf16>, tensor<16384x16384xbf16>) {
    // CHECK: }){{.*}}bound = "compute"{{.*}} latency_ns = 5466.5507
    // A100: }){{.*}}bound = "compute"{{.*}} latency_ns = 15486.9663
    // TPU: }){{.*}}bound = "compute"{{.*}} latency_ns = 14048.6208
    %0 = "mhlo.fusion"(%x0, %y1) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<1024x1024xbf16>, %y_in: tensor<1024x1024xbf16>):
      %d = stablehlo.dot_general %x_in, %y_in, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
      %t = stablehlo.tanh %d : tensor<1024x1024xbf16>
      mhlo.return %t : tensor<1024x1024xbf16>
    }) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    // CHECK: }){{.*}}bound = "compute"{{.*}} latency_ns = 5417.5934
    // A100: }){{.*}}bound = "compute"{{.*}} latency_ns = 15285.5160
    // TPU: }){{.*}}bound = "compute"{{.*}} latency_ns = 13785.5440
    %1 = "mhlo.fusion"(%x0, %y2) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<1024x1024xbf16>, %y_in: tensor<1024x1000xbf16>):
      %d = stablehlo.dot_general %x_in, %y_in, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1000xbf16>) -> tensor<1024x1000xbf16>
      %t = stablehlo.tanh %d : tensor<1024x1000xbf16>
      mhlo.return %t : tensor<1024x1000xbf16>
    }) : (tensor<1024x1024xbf16>, tensor<1024x1000xbf16>) -> tensor<1024x1000xbf16>
    // CHECK: }){{.*}}bound = "compute"{{.*}} latency_ns = 11967.7598
    // A100: }){{.*}}bound = "compute"{{.*}} latency_ns = 27254.8416{{.*}}tag = "transferred"
    // TPU: }){{.*}}bound = "memory"{{.*}} latency_ns = 20256.1738
    %2 = "mhlo.fusion"(%x3, %y4) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<1024x1024xf32>, %y_in: tensor<1024x1024xf32>):
      %d = stablehlo.dot_general %x_in, %y_in, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %t = stablehlo.tanh %d : tensor<1024x1024xf32>
      mhlo.return %t : tensor<1024x1024xf32>
    }) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    // CHECK: }){{.*}}bound = "memory"{{.*}} latency_ns = 189427.4888{{.*}}tag = "extrapolated"
    // A100: }){{.*}}bound = "memory"{{.*}} latency_ns = 324971.5832
    // TPU: }){{.*}}bound = "memory"{{.*}} latency_ns = 765413.7760
    %3 = "mhlo.fusion"(%x5, %y6) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<16x16384xbf16>, %y_in: tensor<16384x16384xbf16>):
      %d = stablehlo.dot_general %x_in, %y_in, contracting_dims = [1] x [0] : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
      %t = stablehlo.tanh %d : tensor<16x16384xbf16>
      mhlo.return %t : tensor<16x16384xbf16>
    }) : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
    // CHECK: }){{.*}}bound = "power"{{.*}} latency_ns = 12947139.1528{{.*}}tag = "extrapolated"
    // A100: }){{.*}}bound = "power"{{.*}} latency_ns = 33408042.6861{{.*}}tag = "extrapolated"
    // TPU: }){{.*}}bound = "compute"{{.*}} latency_ns = 46746122.9075
    %4 = "mhlo.fusion"(%x7, %y6) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x_in: tensor<16384x16384xbf16>, %y_in: tensor<16384x16384xbf16>):
      %d = stablehlo.dot_general %x_in, %y_in, contracting_dims = [1] x [0] : (tensor<16384x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16384x16384xbf16>
      %t = stablehlo.tanh %d : tensor<16384x16384xbf16>
      mhlo.return %t : tensor<16384x16384xbf16>
    }) : (tensor<16384x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16384x16384xbf16>
    return %0, %1, %2, %3, %4 : tensor<1024x1024xbf16>, tensor<1024x1000xbf16>, tensor<1024x1024xf32>, tensor<16x16384xbf16>, tensor<16384x16384xbf16>
  }
}

// -----

/// Convolutions, with groups and with one channel for each.

// CHECK-LABEL: module @convolutions
// A100-LABEL: module @convolutions
// TPU-LABEL: module @convolutions
module @convolutions {
  func.func @main(%x0: tensor<8x56x56x64xbf16>, %w1: tensor<3x3x64x64xbf16>, %w2: tensor<1x1x64x256xbf16>, %w3: tensor<3x3x32x64xbf16>, %w4: tensor<3x3x1x64xbf16>, %w5: tensor<3x3x1x128xbf16>, %x6: tensor<8x56x56x64xf32>, %w7: tensor<3x3x64x64xf32>, %x8: tensor<1x7x7x512xbf16>, %w9: tensor<3x3x512x512xbf16>) -> (tensor<8x56x56x64xbf16>, tensor<8x56x56x256xbf16>, tensor<8x56x56x64xbf16>, tensor<8x56x56x64xbf16>, tensor<8x56x56x128xbf16>, tensor<8x56x56x64xf32>, tensor<1x7x7x512xbf16>) {
    // CHECK: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 6168.4177{{.*}}tag = "assumed"
    // A100: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 13395.6496{{.*}}tag = "assumed"
    // TPU: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 12887.1651{{.*}}tag = "assumed"
    %0 = stablehlo.convolution(%x0, %w1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x56x56x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x56x56x64xbf16>
    // CHECK: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 8386.5736{{.*}}tag = "assumed"
    // A100: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 15791.0744{{.*}}tag = "assumed"
    // TPU: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 24540.4226{{.*}}tag = "assumed"
    %1 = stablehlo.convolution(%x0, %w2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[0, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x56x56x64xbf16>, tensor<1x1x64x256xbf16>) -> tensor<8x56x56x256xbf16>
    // CHECK: stablehlo.convolution{{.*}}bound = "launch"{{.*}} latency_ns = 5297.1255{{.*}}tag = "assumed"
    // A100: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 10514.8518{{.*}}tag = "assumed"
    // TPU: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 11028.0584{{.*}}tag = "assumed"
    %2 = stablehlo.convolution(%x0, %w3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<8x56x56x64xbf16>, tensor<3x3x32x64xbf16>) -> tensor<8x56x56x64xbf16>
    // CHECK: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 10611.6432{{.*}}tag = "assumed"
    // A100: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 18814.1852{{.*}}tag = "assumed"
    // TPU: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 10810.1410{{.*}}tag = "assumed"
    %3 = stablehlo.convolution(%x0, %w4) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 64 : i64} : (tensor<8x56x56x64xbf16>, tensor<3x3x1x64xbf16>) -> tensor<8x56x56x64xbf16>
    // CHECK: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 10476.2211{{.*}}tag = "assumed"
    // A100: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 18583.9472{{.*}}tag = "assumed"
    // TPU: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 15371.0298{{.*}}tag = "assumed"
    %4 = stablehlo.convolution(%x0, %w5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 64 : i64} : (tensor<8x56x56x64xbf16>, tensor<3x3x1x128xbf16>) -> tensor<8x56x56x128xbf16>
    // CHECK: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 9632.1444{{.*}}tag = "assumed transferred"
    // A100: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 22297.3306{{.*}}tag = "assumed transferred"
    // TPU: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 20465.3291{{.*}}tag = "assumed"
    %5 = stablehlo.convolution(%x6, %w7) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x56x56x64xf32>, tensor<3x3x64x64xf32>) -> tensor<8x56x56x64xf32>
    // CHECK: stablehlo.convolution{{.*}}bound = "launch"{{.*}} latency_ns = 5356.2531{{.*}}tag = "assumed"
    // A100: stablehlo.convolution{{.*}}bound = "launch"{{.*}} latency_ns = 8250.7213{{.*}}tag = "assumed"
    // TPU: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 8532.5854{{.*}}tag = "assumed"
    %6 = stablehlo.convolution(%x8, %w9) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x7x7x512xbf16>, tensor<3x3x512x512xbf16>) -> tensor<1x7x7x512xbf16>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<8x56x56x64xbf16>, tensor<8x56x56x256xbf16>, tensor<8x56x56x64xbf16>, tensor<8x56x56x64xbf16>, tensor<8x56x56x128xbf16>, tensor<8x56x56x64xf32>, tensor<1x7x7x512xbf16>
  }
}
