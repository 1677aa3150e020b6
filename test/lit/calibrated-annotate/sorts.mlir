// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB --keep-going --split-input-file | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5e --keep-going --split-input-file | filecheck %s --check-prefix=TPU

/// Which kernel selects and sorts follows from the rows, their types and what is compared. The numbers are those of the constants of the nodes, and change with them.

// CHECK-LABEL: module @selections
// TPU-LABEL: module @selections
module @selections {
  func.func @main(%x0: tensor<4096x1024xf32>, %x1: tensor<4096x1023xf32>, %x2: tensor<64x65536xf32>, %x3: tensor<256x1024xf32>) -> (tensor<4096x16xf32>, tensor<4096x17xf32>, tensor<4096x16xf32>, tensor<64x256xf32>, tensor<64x512xf32>, tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x255xf32>, tensor<256x8xf32>, tensor<256x9xf32>, tensor<64x256xf32>) {
    /// Up to 16 of at least 1,024 are selected in one pass; else whole rows are sorted with their positions,
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 95465.9320{{.*}} low_ns = 82411.2366{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 97184.2988{{.*}} low_ns = 76222.6203{{.*}} tag = "assumed transferred"
    %0:2 = "chlo.top_k"(%x0) <{k = 16 : i64}> : (tensor<4096x1024xf32>) -> (tensor<4096x16xf32>, tensor<4096x16xi32>)
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 329703.104{{.*}} low_ns = 284617.140{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 97218.3434{{.*}} low_ns = 76249.3219{{.*}} tag = "assumed transferred"
    %1:2 = "chlo.top_k"(%x0) <{k = 17 : i64}> : (tensor<4096x1024xf32>) -> (tensor<4096x17xf32>, tensor<4096x17xi32>)
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 329701.262{{.*}} low_ns = 284615.550{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 97091.0866{{.*}} low_ns = 76149.5131{{.*}} tag = "assumed transferred"
    %2:2 = "chlo.top_k"(%x1) <{k = 16 : i64}> : (tensor<4096x1023xf32>) -> (tensor<4096x16xf32>, tensor<4096x16xi32>)
    /// in long rows perhaps by CUB.
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 755420.1627{{.*}} low_ns = 652118.5986{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 2037601.9864{{.*}} low_ns = 1598111.6763{{.*}} tag = "assumed transferred"
    %3:2 = "chlo.top_k"(%x2) <{k = 256 : i64}> : (tensor<64x65536xf32>) -> (tensor<64x256xf32>, tensor<64x256xi32>)
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 755420.1627{{.*}} low_ns = 652118.5986{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 2037636.0311{{.*}} low_ns = 1598138.3779{{.*}} tag = "assumed transferred"
    %4:2 = "chlo.top_k"(%x2) <{k = 512 : i64}> : (tensor<64x65536xf32>) -> (tensor<64x512xf32>, tensor<64x512xi32>)
    /// The calls of frameworks are the same.
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 755420.1627{{.*}} low_ns = 652118.5986{{.*}} tag = "assumed"
    // TPU: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 2037601.9864{{.*}} low_ns = 1598111.6763{{.*}} tag = "assumed transferred"
    %5:2 = stablehlo.custom_call @TopK(%x2) : (tensor<64x65536xf32>) -> (tensor<64x256xf32>, tensor<64x256xi32>)
    /// A TPU reduces approximate ones in one pass.
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 755420.1627{{.*}} low_ns = 652118.5986{{.*}} tag = "assumed"
    // TPU: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 26047.2628{{.*}} low_ns = 20429.1295{{.*}} tag = "assumed transferred"
    %6:2 = stablehlo.custom_call @ApproxTopK(%x2) : (tensor<64x65536xf32>) -> (tensor<64x256xf32>, tensor<64x256xi32>)
    /// It selects one of 128, and less than 256, in one pass.
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 755420.1627{{.*}} low_ns = 652118.5986{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 26046.5359{{.*}} low_ns = 20428.5594{{.*}} tag = "assumed transferred"
    %7:2 = "chlo.top_k"(%x2) <{k = 255 : i64}> : (tensor<64x65536xf32>) -> (tensor<64x255xf32>, tensor<64x255xi32>)
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 8300.5353{{.*}} low_ns = 7165.4607{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "launch"{{.*}} latency_ns = 3255.5082{{.*}} low_ns = 2553.3277{{.*}} tag = "assumed transferred"
    %8:2 = "chlo.top_k"(%x3) <{k = 8 : i64}> : (tensor<256x1024xf32>) -> (tensor<256x8xf32>, tensor<256x8xi32>)
    // CHECK: mhlo.topk{{.*}}bound = "compute"{{.*}} latency_ns = 8300.5929{{.*}} low_ns = 7165.5103{{.*}} tag = "assumed"
    // TPU: mhlo.topk{{.*}}bound = "memory"{{.*}} latency_ns = 7700.5811{{.*}} low_ns = 6039.6430{{.*}} tag = "assumed transferred"
    %9:2 = "chlo.top_k"(%x3) <{k = 9 : i64}> : (tensor<256x1024xf32>) -> (tensor<256x9xf32>, tensor<256x9xi32>)
    /// A kernel that selects, and what computes its operand.
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 13937.1803{{.*}} low_ns = 12031.3104{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 25954.2169{{.*}} low_ns = 20356.1526{{.*}} tag = "assumed transferred"
    %10 = "mhlo.fusion"(%x2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<64x65536xf32>): %b = stablehlo.tanh %a : tensor<64x65536xf32> %v, %i = "chlo.top_k"(%b) <{k = 256 : i64}> : (tensor<64x65536xf32>) -> (tensor<64x256xf32>, tensor<64x256xi32>) mhlo.return %v : tensor<64x256xf32> }) : (tensor<64x65536xf32>) -> tensor<64x256xf32>
    return %0#0, %1#0, %2#0, %3#0, %4#0, %5#0, %6#0, %7#0, %8#0, %9#0, %10 : tensor<4096x16xf32>, tensor<4096x17xf32>, tensor<4096x16xf32>, tensor<64x256xf32>, tensor<64x512xf32>, tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x255xf32>, tensor<256x8xf32>, tensor<256x9xf32>, tensor<64x256xf32>
  }
}

// -----

// CHECK-LABEL: module @sorts
// TPU-LABEL: module @sorts
module @sorts {
  func.func @main(%x0: tensor<16384x64xi32>, %x1: tensor<32768x64xi32>, %x2: tensor<64x16384xi32>, %x3: tensor<64x16385xi32>, %x4: tensor<55x32768xi32>, %x5: tensor<56x32768xi32>, %x6: tensor<32768xi32>, %x7: tensor<32769xi32>, %x8: tensor<65537xi16>, %x9: tensor<32769xi16>, %x10: tensor<131073xi64>, %x11: tensor<1048576xi64>, %x12: tensor<1048576xf32>, %x13: tensor<1048576xf32>, %x14: tensor<1048576xi32>, %x15: tensor<1048576xf32>, %x16: tensor<1048576xi32>, %x17: tensor<1048576xi32>, %x18: tensor<1048576xi32>) -> (tensor<16384x64xi32>, tensor<32768x64xi32>, tensor<64x16384xi32>, tensor<64x16385xi32>, tensor<55x32768xi32>, tensor<56x32768xi32>, tensor<32768xi32>, tensor<32769xi32>, tensor<65537xi16>, tensor<32769xi16>, tensor<131073xi64>, tensor<1048576xi64>, tensor<1048576xf32>, tensor<1048576xi32>, tensor<1048576xf32>, tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi64>, tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi32>) {
    /// Rows that CUB sorts are long, and few or many:
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 182527.006{{.*}} low_ns = 157566.955{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 136568.0006{{.*}} low_ns = 107111.6527{{.*}} tag = "assumed transferred"
    %0 = "stablehlo.sort"(%x0) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<16384x64xi32>) -> (tensor<16384x64xi32>)
    /// another dimension than the last is not.
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 399323.9411{{.*}} low_ns = 344717.5251{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 383576.8679{{.*}} low_ns = 300843.1850{{.*}} tag = "assumed transferred"
    %1 = "stablehlo.sort"(%x1) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<32768x64xi32>) -> (tensor<32768x64xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 182527.006{{.*}} low_ns = 157566.955{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 136568.0006{{.*}} low_ns = 107111.6527{{.*}} tag = "assumed transferred"
    %2 = "stablehlo.sort"(%x2) <{dimension = 1 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<64x16384xi32>) -> (tensor<64x16384xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 197260.980{{.*}} low_ns = 170286.101{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 204811.8456{{.*}} low_ns = 160635.9848{{.*}} tag = "assumed transferred"
    %3 = "stablehlo.sort"(%x3) <{dimension = 1 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<64x16385xi32>) -> (tensor<64x16385xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 348421.3557{{.*}} low_ns = 300775.7237{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 333296.1365{{.*}} low_ns = 261407.5030{{.*}} tag = "assumed transferred"
    %4 = "stablehlo.sort"(%x4) <{dimension = 1 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<55x32768xi32>) -> (tensor<55x32768xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 381784.229{{.*}} low_ns = 329576.318{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 338882.8844{{.*}} low_ns = 265789.2455{{.*}} tag = "assumed transferred"
    %5 = "stablehlo.sort"(%x5) <{dimension = 1 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<56x32768xi32>) -> (tensor<56x32768xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 112354.106{{.*}} low_ns = 96990.0007{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "launch"{{.*}} latency_ns = 31611.7479{{.*}} low_ns = 24793.4109{{.*}} tag = "assumed transferred"
    %6 = "stablehlo.sort"(%x6) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<32768xi32>) -> (tensor<32768xi32>)
    // CHECK: }) {{.*}}bound = "launch"{{.*}} latency_ns = 53819.0393{{.*}} low_ns = 30673.2729{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "launch"{{.*}} latency_ns = 44255.3558{{.*}} low_ns = 34709.9195{{.*}} tag = "assumed transferred"
    %7 = "stablehlo.sort"(%x7) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<32769xi32>) -> (tensor<32769xi32>)
    // CHECK: }) {{.*}}bound = "launch"{{.*}} latency_ns = 31624.277{{.*}} low_ns = 18023.734{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "launch"{{.*}} latency_ns = 59010.3511{{.*}} low_ns = 46282.4103{{.*}} tag = "assumed transferred"
    %8 = "stablehlo.sort"(%x8) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i16>, %b0: tensor<i16>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i16>, tensor<i16>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<65537xi16>) -> (tensor<65537xi16>)
    // CHECK: }) {{.*}}bound = "launch"{{.*}} latency_ns = 30647.1535{{.*}} low_ns = 17466.8391{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "launch"{{.*}} latency_ns = 40347.3058{{.*}} low_ns = 31644.7966{{.*}} tag = "assumed transferred"
    %9 = "stablehlo.sort"(%x9) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i16>, %b0: tensor<i16>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i16>, tensor<i16>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<32769xi16>) -> (tensor<32769xi16>)
    // CHECK: }) {{.*}}bound = "launch"{{.*}} latency_ns = 112197.666{{.*}} low_ns = 63945.2075{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 169668.9279{{.*}} low_ns = 133073.0420{{.*}} tag = "assumed transferred"
    %10 = "stablehlo.sort"(%x10) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i64>, %b0: tensor<i64>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i64>, tensor<i64>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<131073xi64>) -> (tensor<131073xi64>)
    /// The key may be another operand than the first.
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 116743.0166{{.*}} low_ns = 66535.7549{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 2060726.1544{{.*}} low_ns = 1616248.1932{{.*}} tag = "assumed transferred"
    %11:2 = "stablehlo.sort"(%x11, %x12) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i64>, %b0: tensor<i64>, %a1: tensor<f32>, %b1: tensor<f32>): %s = stablehlo.compare LT, %a1, %b1 : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %s : tensor<i1> }) : (tensor<1048576xi64>, tensor<1048576xf32>) -> (tensor<1048576xi64>, tensor<1048576xf32>)
    /// Positions that are read do not count as a third operand of CUB,
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 115800.1772{{.*}} low_ns = 65998.3992{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 2061407.0479{{.*}} low_ns = 1616782.2248{{.*}} tag = "assumed transferred"
    %12:3 = "stablehlo.sort"(%x13, %x12, %x14) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<f32>, %b1: tensor<f32>, %a2: tensor<i32>, %b2: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1> %r = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1> %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1> %p = stablehlo.compare LT, %a2, %b2 : (tensor<i32>, tensor<i32>) -> tensor<i1> %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1> stablehlo.return %o : tensor<i1> }) : (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xi32>) -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xi32>)
    /// and a fourth is one too many.
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 1189600.2624{{.*}} low_ns = 1026925.8014{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 2716450.6916{{.*}} low_ns = 2130539.5251{{.*}} tag = "assumed transferred"
    %13:4 = "stablehlo.sort"(%x13, %x12, %x15, %x16) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<f32>, %b0: tensor<f32>, %a1: tensor<f32>, %b1: tensor<f32>, %a2: tensor<f32>, %b2: tensor<f32>, %a3: tensor<i32>, %b3: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1> %r = stablehlo.compare LT, %b0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1> %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1> %p = stablehlo.compare LT, %a3, %b3 : (tensor<i32>, tensor<i32>) -> tensor<i1> %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1> stablehlo.return %o : tensor<i1> }) : (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xi32>) -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xi32>)
    /// Signed keys with positions: pairs of 32 bits, others, and three.
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 115800.177{{.*}} low_ns = 65998.3992{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 1406363.4042{{.*}} low_ns = 1103024.9246{{.*}} tag = "assumed transferred"
    %14:2 = "stablehlo.sort"(%x17, %x18) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>, %a1: tensor<i32>, %b1: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> %r = stablehlo.compare LT, %b0, %a0 : (tensor<i32>, tensor<i32>) -> tensor<i1> %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1> %p = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1> %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1> stablehlo.return %o : tensor<i1> }) : (tensor<1048576xi32>, tensor<1048576xi32>) -> (tensor<1048576xi32>, tensor<1048576xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 225996.0332{{.*}} low_ns = 128802.7080{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 2061407.0479{{.*}} low_ns = 1616782.2248{{.*}} tag = "assumed transferred"
    %15:2 = "stablehlo.sort"(%x11, %x18) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i64>, %b0: tensor<i64>, %a1: tensor<i32>, %b1: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i64>, tensor<i64>) -> tensor<i1> %r = stablehlo.compare LT, %b0, %a0 : (tensor<i64>, tensor<i64>) -> tensor<i1> %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1> %p = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1> %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1> stablehlo.return %o : tensor<i1> }) : (tensor<1048576xi64>, tensor<1048576xi32>) -> (tensor<1048576xi64>, tensor<1048576xi32>)
    // CHECK: }) {{.*}}bound = "compute"{{.*}} latency_ns = 115800.1772{{.*}} low_ns = 65998.3992{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 2061407.0479{{.*}} low_ns = 1616782.2248{{.*}} tag = "assumed transferred"
    %16:3 = "stablehlo.sort"(%x17, %x18, %x14) <{dimension = 0 : i64, is_stable = false}> ({ ^bb0(%a0: tensor<i32>, %b0: tensor<i32>, %a1: tensor<i32>, %b1: tensor<i32>, %a2: tensor<i32>, %b2: tensor<i32>): %s = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1> %r = stablehlo.compare LT, %b0, %a0 : (tensor<i32>, tensor<i32>) -> tensor<i1> %e = stablehlo.compare EQ, %s, %r : (tensor<i1>, tensor<i1>) -> tensor<i1> %p = stablehlo.compare LT, %a2, %b2 : (tensor<i32>, tensor<i32>) -> tensor<i1> %o = stablehlo.select %e, %p, %s : tensor<i1>, tensor<i1> stablehlo.return %o : tensor<i1> }) : (tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi32>) -> (tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi32>)
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11#0, %12#0, %12#2, %13#0, %13#3, %14#0, %14#1, %15#0, %15#1, %16#0, %16#2 : tensor<16384x64xi32>, tensor<32768x64xi32>, tensor<64x16384xi32>, tensor<64x16385xi32>, tensor<55x32768xi32>, tensor<56x32768xi32>, tensor<32768xi32>, tensor<32769xi32>, tensor<65537xi16>, tensor<32769xi16>, tensor<131073xi64>, tensor<1048576xi64>, tensor<1048576xf32>, tensor<1048576xi32>, tensor<1048576xf32>, tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi64>, tensor<1048576xi32>, tensor<1048576xi32>, tensor<1048576xi32>
  }
}

// -----

// CHECK-LABEL: module @others
// TPU-LABEL: module @others
module @others {
  func.func @main(%x0: tensor<1024x4096xcomplex<f32>>, %x1: tensor<64x65536xcomplex<f32>>, %x2: tensor<f32>, %x3: tensor<1048576xi32>, %x4: tensor<1048576xi8>) -> (tensor<1024x4096xcomplex<f32>>, tensor<64x65536xcomplex<f32>>, tensor<64x65536xcomplex<f32>>, tensor<f32>, tensor<1048576xi32>, tensor<1048576xi8>) {
    /// A transform takes a pass for 4,096 points, also in a kernel with other ops,
    // CHECK: stablehlo.fft{{.*}}bound = "memory"{{.*}} latency_ns = 40902.6241{{.*}} low_ns = 35309.3063{{.*}} tag = "assumed"
    // TPU: stablehlo.fft{{.*}}bound = "memory"{{.*}} latency_ns = 99056.7559{{.*}} low_ns = 77691.2073{{.*}} tag = "assumed transferred"
    %0 = stablehlo.fft %x0, type = FFT, length = [4096] : (tensor<1024x4096xcomplex<f32>>) -> tensor<1024x4096xcomplex<f32>>
    // CHECK: stablehlo.fft{{.*}}bound = "memory"{{.*}} latency_ns = 81321.2902{{.*}} low_ns = 70200.8344{{.*}} tag = "assumed"
    // TPU: stablehlo.fft{{.*}}bound = "memory"{{.*}} latency_ns = 196751.7249{{.*}} low_ns = 154314.3513{{.*}} tag = "assumed transferred"
    %1 = stablehlo.fft %x1, type = FFT, length = [65536] : (tensor<64x65536xcomplex<f32>>) -> tensor<64x65536xcomplex<f32>>
    // CHECK: }) {{.*}}bound = "memory"{{.*}} latency_ns = 41139.2259{{.*}} low_ns = 35513.5535{{.*}} tag = "assumed"
    // TPU: }) {{.*}}bound = "memory"{{.*}} latency_ns = 99805.7388{{.*}} low_ns = 78278.6420{{.*}} tag = "assumed transferred"
    %2 = "mhlo.fusion"(%x1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({ ^bb0(%a: tensor<64x65536xcomplex<f32>>): %b = stablehlo.fft %a, type = FFT, length = [65536] : (tensor<64x65536xcomplex<f32>>) -> tensor<64x65536xcomplex<f32>> %c = stablehlo.negate %b : tensor<64x65536xcomplex<f32>> mhlo.return %c : tensor<64x65536xcomplex<f32>> }) : (tensor<64x65536xcomplex<f32>>) -> tensor<64x65536xcomplex<f32>>
    /// a factorisation of one number a step.
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 20490.0045{{.*}} low_ns = 11677.9397{{.*}} tag = "assumed"
    // TPU: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 6940.0113{{.*}} low_ns = 5443.1205{{.*}} tag = "assumed transferred"
    %3 = stablehlo.custom_call @cusolver_getrf_ffi(%x2) : (tensor<f32>) -> tensor<f32>
    /// CUB's own calls have a pass for each eight bits.
    // CHECK: stablehlo.custom_call{{.*}}bound = "compute"{{.*}} latency_ns = 114857.337{{.*}} low_ns = 65461.0435{{.*}} tag = "assumed"
    // TPU: stablehlo.custom_call{{.*}}bound = "memory"{{.*}} latency_ns = 101703.524{{.*}} low_ns = 51906.8426{{.*}} tag = "assumed transferred"
    %4:2 = stablehlo.custom_call @__cub$DeviceRadixSort(%x3) : (tensor<1048576xi32>) -> (tensor<1048576xi32>, tensor<8388608xi8>)
    // CHECK: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 34155.052{{.*}} low_ns = 19466.108{{.*}} tag = "assumed"
    // TPU: stablehlo.custom_call{{.*}}bound = "launch"{{.*}} latency_ns = 21544.717{{.*}} low_ns = 10995.865{{.*}} tag = "assumed transferred"
    %5:2 = stablehlo.custom_call @__cub$DeviceRadixSort(%x4) : (tensor<1048576xi8>) -> (tensor<1048576xi8>, tensor<8388608xi8>)
    return %0, %1, %2, %3, %4#0, %5#0 : tensor<1024x4096xcomplex<f32>>, tensor<64x65536xcomplex<f32>>, tensor<64x65536xcomplex<f32>>, tensor<f32>, tensor<1048576xi32>, tensor<1048576xi8>
  }
}
