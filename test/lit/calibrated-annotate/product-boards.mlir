// RUN: hespas-opt %s --calibrated-annotate=node=V100_16GB --keep-going --split-input-file | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB --keep-going --split-input-file | filecheck %s --check-prefix=B200
// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB_720W --keep-going --split-input-file | filecheck %s --check-prefix=LIMIT
// RUN: hespas-opt %s --calibrated-annotate=node=L40S_48GB --keep-going --split-input-file | filecheck %s --check-prefix=L40S
// RUN: hespas-opt %s --calibrated-annotate=node=MI300X --keep-going --split-input-file | filecheck %s --check-prefix=MI300X
// RUN: hespas-opt %s --calibrated-annotate=node=TPU7x --keep-going --split-input-file | filecheck %s --check-prefix=TPU7x
// RUN: hespas-opt %s --calibrated-annotate="node=A100_PCIe_80GB quantise" --keep-going --split-input-file | filecheck %s --check-prefix=LONG

/// Products on boards that have the constants of other ones, with another limit of power, with other types, of other vendors, and
/// as inference engines compute them. The numbers are those of the constants of the nodes, and change with them.

// CHECK-LABEL: module @types
// B200-LABEL: module @types
// LIMIT-LABEL: module @types
// L40S-LABEL: module @types
// MI300X-LABEL: module @types
// TPU7x-LABEL: module @types
// LONG-LABEL: module @types
module @types {
  func.func @main(%x0: tensor<4096x4096xbf16>, %x1: tensor<4096x4096xbf16>, %x2: tensor<4096x4096xf16>, %x3: tensor<4096x4096xf16>, %x4: tensor<4096x4096xf32>, %x5: tensor<4096x4096xf32>, %x6: tensor<1024x1024xf64>, %x7: tensor<1024x1024xf64>, %x8: tensor<4096x4096xf8E4M3FN>, %x9: tensor<4096x4096xf8E4M3FN>, %x10: tensor<4096x4096xf4E2M1FN>, %x11: tensor<4096x4096xf4E2M1FN>, %x12: tensor<4096x4096xi8>, %x13: tensor<4096x4096xi8>, %x14: tensor<1024x1024xi4>, %x15: tensor<1024x1024xi4>, %x16: tensor<1024x1024xi32>, %x17: tensor<1024x1024xi32>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xf16>, tensor<4096x4096xf32>, tensor<4096x4096xf32>, tensor<4096x4096xf32>, tensor<1024x1024xf64>, tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xbf16>, tensor<4096x4096xf4E2M1FN>, tensor<4096x4096xi32>, tensor<1024x1024xi32>, tensor<1024x1024xi32>) {
    /// Sixteen bits;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8972055.5922{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 106527.9301{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 136440.6584{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 588827.9497{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 231372.1041{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 82885.2447{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 651465.1000{{.*}} tag = "transferred"
    %0 = stablehlo.dot_general %x0, %x1, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1277271.7408{{.*}} tag = "transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 106527.9301{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 136440.6584{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 588827.9497{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 231372.1041{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 82885.2447{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 651465.1000{{.*}} tag = "transferred"
    %1 = stablehlo.dot_general %x2, %x3, contracting_dims = [1] x [0] : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
    /// results that are wider;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8973837.0297{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 108002.4893{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 138629.0789{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 594111.9631{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 239406.3996{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 87159.9519{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 660869.2076{{.*}} tag = "transferred"
    %2 = stablehlo.dot_general %x0, %x1, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
    /// wider numbers, rounded or not;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8978521.9378{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 224677.3738{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 287699.2440{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1219151.9830{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 461617.9917{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 96029.0908{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1049114.2225{{.*}} tag = "transferred"
    %3 = stablehlo.dot_general %x4, %x5, contracting_dims = [1] x [0] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8978521.9378{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 2436309.8673{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 2436309.8673{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 4945837.5557{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1699107.0411{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 440976.3325{{.*}} tag = "assumed"
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8054954.8747{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %4 = stablehlo.dot_general %x4, %x5, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 350080.2393{{.*}} tag = "transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 113442.9501{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 113442.9501{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 6061942.4462{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 32805.4289{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "unknown"{{.*}} gap = "stablehlo.dot_general: node TPU7x has n{{.*}} latency_ns = 0.000000{{[0-9]*}}e+00{{.*}} read_bytes = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 156358.6985{{.*}} tag = "transferred"
    %5 = stablehlo.dot_general %x6, %x7, contracting_dims = [1] x [0] : (tensor<1024x1024xf64>, tensor<1024x1024xf64>) -> tensor<1024x1024xf64>
    /// narrower numbers;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1253860.5084{{.*}} tag = "transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 52046.4552{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 52046.4552{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 348731.1033{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 119642.2507{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 42286.1223{{.*}} tag = "transferred"
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 638966.4835{{.*}} tag = "transferred"
    %6 = stablehlo.dot_general %x8, %x9, contracting_dims = [1] x [0] : (tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>) -> tensor<4096x4096xf8E4M3FN>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1260916.5131{{.*}} tag = "transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 52799.7511{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 52799.7511{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 350983.2194{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 123659.3985{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 44423.4759{{.*}} tag = "transferred"
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 642875.3476{{.*}} tag = "transferred"
    %7 = stablehlo.dot_general %x8, %x9, contracting_dims = [1] x [0] : (tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>) -> tensor<4096x4096xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1245105.9741{{.*}} tag = "transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 36623.1337{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 36623.1337{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 347018.5242{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 113616.5290{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 39241.4181{{.*}} tag = "transferred"
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 633745.6195{{.*}} tag = "transferred"
    %8 = stablehlo.dot_general %x10, %x11, contracting_dims = [1] x [0] : (tensor<4096x4096xf4E2M1FN>, tensor<4096x4096xf4E2M1FN>) -> tensor<4096x4096xf4E2M1FN>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 2354657.3630{{.*}} tag = "transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 55708.5442{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 71800.0289{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 306511.4881{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 128201.9983{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 82885.2447{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 289689.3660{{.*}} tag = "transferred"
    %9 = stablehlo.dot_general %x12, %x13, contracting_dims = [1] x [0] : (tensor<4096x4096xi8>, tensor<4096x4096xi8>) -> tensor<4096x4096xi32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 549938.2343{{.*}} tag = "assumed"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 230689.7385{{.*}} tag = "assumed"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 230689.7385{{.*}} tag = "assumed"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 187952.4298{{.*}} tag = "assumed"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 106202.7262{{.*}} tag = "assumed"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 3450.4312{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 443154.7028{{.*}} tag = "assumed"
    %10 = stablehlo.dot_general %x14, %x15, contracting_dims = [1] x [0] : (tensor<1024x1024xi4>, tensor<1024x1024xi4>) -> tensor<1024x1024xi32>
    /// integers of 32 bits.
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 550384.3338{{.*}} tag = "assumed"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 230746.8809{{.*}} tag = "assumed"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 230746.8809{{.*}} tag = "assumed"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 188511.4117{{.*}} tag = "assumed"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 106290.6013{{.*}} tag = "assumed"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 142594.4782{{.*}} tag = "assumed"
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 443372.0339{{.*}} tag = "assumed"
    %11 = stablehlo.dot_general %x16, %x17, contracting_dims = [1] x [0] : (tensor<1024x1024xi32>, tensor<1024x1024xi32>) -> tensor<1024x1024xi32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<4096x4096xbf16>, tensor<4096x4096xf16>, tensor<4096x4096xf32>, tensor<4096x4096xf32>, tensor<4096x4096xf32>, tensor<1024x1024xf64>, tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xbf16>, tensor<4096x4096xf4E2M1FN>, tensor<4096x4096xi32>, tensor<1024x1024xi32>, tensor<1024x1024xi32>
  }
}

// -----

// CHECK-LABEL: module @shapes
// B200-LABEL: module @shapes
// LIMIT-LABEL: module @shapes
// L40S-LABEL: module @shapes
// MI300X-LABEL: module @shapes
// TPU7x-LABEL: module @shapes
// LONG-LABEL: module @shapes
module @shapes {
  func.func @main(%x0: tensor<1x8192xbf16>, %x1: tensor<8192x8192xbf16>, %x2: tensor<8192x8192xbf16>, %x3: tensor<8192x1xbf16>, %x4: tensor<8192x32xbf16>, %x5: tensor<32x8192xbf16>, %x6: tensor<131072x2048xbf16>, %x7: tensor<2048x2048xbf16>, %x8: tensor<2048x2048xbf16>, %x9: tensor<2048x131072xbf16>, %x10: tensor<131072x512xbf16>, %x11: tensor<512x131072xbf16>, %x12: tensor<512x128x128xbf16>, %x13: tensor<512x128x128xbf16>, %x14: tensor<64x1024x64xbf16>, %x15: tensor<64x64x1024xbf16>, %x16: tensor<256x1x128xbf16>, %x17: tensor<256x128x4096xbf16>, %x18: tensor<4096x4095xbf16>, %x19: tensor<4095x4096xbf16>, %x20: tensor<4096x4096xf32>, %x21: tensor<4096x4095xf32>, %x22: tensor<4094x4094xf8E4M3FN>, %x23: tensor<4094x4094xf8E4M3FN>, %x24: tensor<256x3xbf16>, %x25: tensor<3x256xbf16>, %x26: tensor<64x64xbf16>, %x27: tensor<64x64xbf16>) -> (tensor<1x8192xbf16>, tensor<8192x1xbf16>, tensor<8192x8192xbf16>, tensor<131072x2048xbf16>, tensor<2048x131072xbf16>, tensor<131072x131072xbf16>, tensor<512x128x128xbf16>, tensor<64x1024x1024xbf16>, tensor<256x1x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4095xf32>, tensor<4094x4094xf8E4M3FN>, tensor<256x256xbf16>, tensor<64x64xbf16>) {
    /// Few rows, few columns, and a short inner dimension;
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 320095.7515{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25247.5790{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25247.5790{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L40S: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 185134.8980{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 33346.4630{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 22617.4754{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 91979.3836{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %0 = stablehlo.dot_general %x0, %x1, contracting_dims = [1] x [0] : (tensor<1x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1x8192xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 451106.7731{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 21147.0871{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 21147.0871{{.*}} tag = "extrapolated"
    // L40S: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 168607.9167{{.*}} tag = "extrapolated"
    // MI300X: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 33346.4630{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 22617.4754{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 95364.5240{{.*}} tag = "extrapolated"
    %1 = stablehlo.dot_general %x2, %x3, contracting_dims = [1] x [0] : (tensor<8192x8192xbf16>, tensor<8192x1xbf16>) -> tensor<8192x1xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 371441.7321{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25252.4993{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25252.4993{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L40S: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 172702.5747{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 39834.1670{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 24172.9374{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 109164.9434{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %2 = stablehlo.dot_general %x4, %x5, contracting_dims = [1] x [0] : (tensor<8192x32xbf16>, tensor<32x8192xbf16>) -> tensor<8192x8192xbf16>
    /// many rows or columns;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 71061894.6182{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 824309.4658{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 1058596.8618{{.*}} tag = "extrapolated transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 5931391.0693{{.*}} tag = "extrapolated"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1910259.7712{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 686555.5217{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 5029462.3488{{.*}} tag = "extrapolated transferred"
    %3 = stablehlo.dot_general %x6, %x7, contracting_dims = [1] x [0] : (tensor<131072x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<131072x2048xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 85544832.6918{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 770890.2569{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 989811.6715{{.*}} tag = "extrapolated transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 5029189.1442{{.*}} tag = "extrapolated"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1910259.7712{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 686555.5217{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 5133436.6091{{.*}} tag = "extrapolated transferred"
    %4 = stablehlo.dot_general %x8, %x9, contracting_dims = [1] x [0] : (tensor<2048x2048xbf16>, tensor<2048x131072xbf16>) -> tensor<2048x131072xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1250494359.8725{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 16018526.8476{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 20717609.0391{{.*}} tag = "extrapolated transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 119746466.1064{{.*}} tag = "extrapolated"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 34694852.8514{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 13286938.8705{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 94027613.9196{{.*}} tag = "extrapolated transferred"
    %5 = stablehlo.dot_general %x10, %x11, contracting_dims = [1] x [0] : (tensor<131072x512xbf16>, tensor<512x131072xbf16>) -> tensor<131072x131072xbf16>
    /// many products;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 161364.6662{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 11119.4961{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 11119.4961{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L40S: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 60781.0488{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 16274.3998{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 10263.3195{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 36849.0638{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %6 = stablehlo.dot_general %x12, %x13, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<512x128x128xbf16>, tensor<512x128x128xbf16>) -> tensor<512x128x128xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 640805.7896{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25887.0446{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 25887.0446{{.*}} tag = "extrapolated"
    // L40S: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 130761.4912{{.*}} tag = "extrapolated"
    // MI300X: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 50046.1561{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 28263.6285{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 124168.2394{{.*}} tag = "extrapolated"
    %7 = stablehlo.dot_general %x14, %x15, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<64x1024x64xbf16>, tensor<64x64x1024xbf16>) -> tensor<64x1024x1024xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 439146.2109{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 42775.9341{{.*}} tag = "extrapolated"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 42775.9341{{.*}} tag = "extrapolated"
    // L40S: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 371969.6777{{.*}} tag = "extrapolated"
    // MI300X: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 66195.0695{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 43874.4087{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "memory"{{.*}} latency_ns = 143611.4372{{.*}} tag = "extrapolated"
    %8 = stablehlo.dot_general %x16, %x17, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<256x1x128xbf16>, tensor<256x128x4096xbf16>) -> tensor<256x1x4096xbf16>
    /// no launch of 16 bytes;
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8969917.1583{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 127394.6326{{.*}} tag = "assumed"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 157300.1282{{.*}} tag = "assumed transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 793065.3118{{.*}} tag = "assumed"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 263447.1586{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 82866.4474{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 730776.7834{{.*}} tag = "assumed transferred"
    %9 = stablehlo.dot_general %x18, %x19, contracting_dims = [1] x [0] : (tensor<4096x4095xbf16>, tensor<4095x4096xbf16>) -> tensor<4096x4096xbf16>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 8976447.1757{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // B200: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 224625.7024{{.*}} tag = "transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 287633.2210{{.*}} tag = "transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1218866.8678{{.*}} tag = "transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 461509.4591{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 96008.2637{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1048858.7262{{.*}} tag = "transferred"
    %10 = stablehlo.dot_general %x20, %x21, contracting_dims = [1] x [0] : (tensor<4096x4096xf32>, tensor<4096x4095xf32>) -> tensor<4096x4095xf32>
    // CHECK: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 1374483.7660{{.*}} tag = "assumed transferred"
    // B200: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 67632.8128{{.*}} tag = "assumed transferred"
    // LIMIT: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 67632.8128{{.*}} tag = "assumed transferred"
    // L40S: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 501397.1022{{.*}} tag = "assumed transferred"
    // MI300X: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 143553.7764{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "compute"{{.*}} latency_ns = 42229.7566{{.*}} tag = "transferred"
    // LONG: stablehlo.dot_general{{.*}}bound = "power"{{.*}} latency_ns = 697652.5271{{.*}} tag = "assumed transferred"
    %11 = stablehlo.dot_general %x22, %x23, contracting_dims = [1] x [0] : (tensor<4094x4094xf8E4M3FN>, tensor<4094x4094xf8E4M3FN>) -> tensor<4094x4094xf8E4M3FN>
    // CHECK: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 5862.8930{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2055.1716{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2226.1716{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L40S: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2172.7808{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 1032.7096{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 1707.9812{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 4428.4317{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %12 = stablehlo.dot_general %x24, %x25, contracting_dims = [1] x [0] : (tensor<256x3xbf16>, tensor<3x256xbf16>) -> tensor<256x256xbf16>
    /// one of few operations.
    // CHECK: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 6814.3447{{.*}} tag = "extrapolated"
    // B200: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2044.1321{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LIMIT: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2215.1321{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // L40S: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 2160.1935{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // MI300X: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 1006.6713{{.*}} tag = "transferred"
    // TPU7x: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 1690.9917{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    // LONG: stablehlo.dot_general{{.*}}bound = "launch"{{.*}} latency_ns = 4437.4589{{.*}} shared_low_ns = {{[^ ]+}} : {{[fi]64}}, write_bytes
    %13 = stablehlo.dot_general %x26, %x27, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13 : tensor<1x8192xbf16>, tensor<8192x1xbf16>, tensor<8192x8192xbf16>, tensor<131072x2048xbf16>, tensor<2048x131072xbf16>, tensor<131072x131072xbf16>, tensor<512x128x128xbf16>, tensor<64x1024x1024xbf16>, tensor<256x1x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4095xf32>, tensor<4094x4094xf8E4M3FN>, tensor<256x256xbf16>, tensor<64x64xbf16>
  }
}

// -----

// CHECK-LABEL: module @convolutions
// B200-LABEL: module @convolutions
// LIMIT-LABEL: module @convolutions
// L40S-LABEL: module @convolutions
// MI300X-LABEL: module @convolutions
// TPU7x-LABEL: module @convolutions
// LONG-LABEL: module @convolutions
module @convolutions {
  func.func @main(%x0: tensor<32x256x28x28xbf16>, %x1: tensor<256x256x3x3xbf16>, %x2: tensor<512x256x1x1xbf16>, %x3: tensor<256x8x3x3xbf16>, %x4: tensor<256x1x3x3xbf16>, %x5: tensor<32x64x56x56xf32>, %x6: tensor<64x64x3x3xf32>) -> (tensor<32x256x28x28xbf16>, tensor<32x512x28x28xbf16>, tensor<32x256x28x28xbf16>, tensor<32x256x28x28xbf16>, tensor<32x64x56x56xf32>) {
    /// Convolutions are products of windows;
    // CHECK: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 1888470.4322{{.*}} tag = "assumed"
    // B200: stablehlo.convolution{{.*}}bound = "power"{{.*}} latency_ns = 22615.1821{{.*}} tag = "assumed"
    // LIMIT: stablehlo.convolution{{.*}}bound = "power"{{.*}} latency_ns = 29011.4026{{.*}} tag = "assumed transferred"
    // L40S: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 128346.9959{{.*}} tag = "assumed"
    // MI300X: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 49760.1969{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 19139.3371{{.*}} tag = "assumed"
    // LONG: stablehlo.convolution{{.*}}bound = "power"{{.*}} latency_ns = 140802.0791{{.*}} tag = "assumed transferred"
    %0 = stablehlo.convolution(%x0, %x1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<32x256x28x28xbf16>, tensor<256x256x3x3xbf16>) -> tensor<32x256x28x28xbf16>
    // CHECK: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 448318.4054{{.*}} tag = "assumed"
    // B200: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 9998.1319{{.*}} tag = "assumed"
    // LIMIT: stablehlo.convolution{{.*}}bound = "power"{{.*}} latency_ns = 11360.9411{{.*}} tag = "assumed transferred"
    // L40S: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 59213.4667{{.*}} tag = "assumed"
    // MI300X: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 20159.9585{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 10393.3196{{.*}} tag = "assumed"
    // LONG: stablehlo.convolution{{.*}}bound = "power"{{.*}} latency_ns = 46775.8471{{.*}} tag = "assumed transferred"
    %1 = stablehlo.convolution(%x0, %x2) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[0, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<32x256x28x28xbf16>, tensor<512x256x1x1xbf16>) -> tensor<32x512x28x28xbf16>
    /// of groups;
    // CHECK: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 74560.1385{{.*}} tag = "assumed"
    // B200: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 6186.6825{{.*}} tag = "assumed"
    // LIMIT: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 6186.6825{{.*}} tag = "assumed"
    // L40S: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 37478.8576{{.*}} tag = "assumed"
    // MI300X: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 8510.6089{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 5987.9395{{.*}} tag = "assumed"
    // LONG: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 22617.0307{{.*}} tag = "assumed"
    %2 = stablehlo.convolution(%x0, %x3) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 32 : i64} : (tensor<32x256x28x28xbf16>, tensor<256x8x3x3xbf16>) -> tensor<32x256x28x28xbf16>
    /// of each channel;
    // CHECK: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 122770.7122{{.*}} tag = "assumed"
    // B200: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 16439.9973{{.*}} tag = "assumed"
    // LIMIT: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 16439.9973{{.*}} tag = "assumed"
    // L40S: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 127816.3892{{.*}} tag = "assumed"
    // MI300X: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 23138.0552{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 5715.7241{{.*}} tag = "assumed"
    // LONG: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 64920.0223{{.*}} tag = "assumed"
    %3 = stablehlo.convolution(%x0, %x4) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 256 : i64} : (tensor<32x256x28x28xbf16>, tensor<256x1x3x3xbf16>) -> tensor<32x256x28x28xbf16>
    /// of rounded numbers.
    // CHECK: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 494810.0716{{.*}} tag = "assumed"
    // B200: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 15735.2881{{.*}} tag = "assumed transferred"
    // LIMIT: stablehlo.convolution{{.*}}bound = "power"{{.*}} latency_ns = 20324.4254{{.*}} tag = "assumed transferred"
    // L40S: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 89548.9195{{.*}} tag = "assumed transferred"
    // MI300X: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 35013.7541{{.*}} tag = "assumed transferred"
    // TPU7x: stablehlo.convolution{{.*}}bound = "memory"{{.*}} latency_ns = 12577.7759{{.*}} tag = "assumed"
    // LONG: stablehlo.convolution{{.*}}bound = "compute"{{.*}} latency_ns = 76774.4096{{.*}} tag = "assumed transferred"
    %4 = stablehlo.convolution(%x5, %x6) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<32x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<32x64x56x56xf32>
    return %0, %1, %2, %3, %4 : tensor<32x256x28x28xbf16>, tensor<32x512x28x28xbf16>, tensor<32x256x28x28xbf16>, tensor<32x256x28x28xbf16>, tensor<32x64x56x56xf32>
  }
}
