// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5e | filecheck %s --check-prefix=TPU

/// A GPU factorises column by column, so that a factorisation takes as long as its steps. Elsewhere it takes launches for
/// panels of columns. The numbers are those of public measurements, whose band is wide.

module @factorisations {
  func.func @main(%m: tensor<1024x1024xf32>, %b: tensor<64x16x16xf32>, %r: tensor<1024x8xf32>, %s: tensor<64x64x64xf32>, %w: tensor<2x1024x1024xf32>, %l: tensor<4x512x512xf32>) -> (tensor<1024x1024xf32>, tensor<64x16x16xf32>, tensor<1024x8xf32>, tensor<64x64x64xf32>, tensor<2x1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<64x16x16xf32>, tensor<4x512x512xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    /// The columns of one matrix, one after the other;
    // CHECK: hespas.cost{{.*}} high_ns = 1410581{{.*}}latency_ns = 699640.{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 419446.{{.*}}latency_ns = 227841.{{.*}}tag = "assumed transferred"
    %c1 = stablehlo.cholesky %m, lower = true : tensor<1024x1024xf32>
    /// a batch of matrices in one call, a step for each column;
    // CHECK: hespas.cost{{.*}} high_ns = 100465.{{.*}}latency_ns = 49830.4{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 13121.4{{.*}}latency_ns = 7127.51{{.*}}tag = "assumed transferred"
    %c2 = stablehlo.cholesky %b, lower = true : tensor<64x16x16xf32>
    /// a triangular system has as many steps as its matrix has columns, however many right-hand sides.
    // CHECK: hespas.cost{{.*}} high_ns = 955126.{{.*}}latency_ns = 473736.{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 210323.{{.*}}latency_ns = 114246.{{.*}}tag = "assumed transferred"
    %t1 = "stablehlo.triangular_solve"(%m, %r) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<1024x1024xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
    /// LU of small matrices in one call,
    // CHECK: hespas.cost{{.*}} high_ns = 433409.{{.*}}latency_ns = 214968.{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 19735.6{{.*}}latency_ns = 10720.3{{.*}}tag = "assumed transferred"
    %l1 = stablehlo.custom_call @cusolver_getrf_ffi(%s) : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
    /// of few large ones in one for each;
    // CHECK: hespas.cost{{.*}} high_ns = 3325180{{.*}}latency_ns = 1649269{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1062332{{.*}}latency_ns = 577054.{{.*}}tag = "assumed transferred"
    %l2 = stablehlo.custom_call @cusolver_getrf_ffi(%w) : (tensor<2x1024x1024xf32>) -> tensor<2x1024x1024xf32>
    /// QR;
    // CHECK: hespas.cost{{.*}} high_ns = 1671439{{.*}}latency_ns = 8290239{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1061236{{.*}}latency_ns = 576458.{{.*}}tag = "assumed transferred"
    %q1 = stablehlo.custom_call @cusolver_geqrf_ffi(%m) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    /// its product;
    // CHECK: hespas.cost{{.*}} high_ns = 8456231{{.*}}latency_ns = 4194239{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1061236{{.*}}latency_ns = 576458.{{.*}}tag = "assumed transferred"
    %q2 = stablehlo.custom_call @cusolver_orgqr_ffi(%m) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    /// eigenvalues of small matrices in one call,
    // CHECK: hespas.cost{{.*}} high_ns = 573261.{{.*}}latency_ns = 284334.{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 14203.5{{.*}}latency_ns = 7715.30{{.*}}tag = "assumed transferred"
    %e1 = stablehlo.custom_call @cusolver_syevd_ffi(%b) : (tensor<64x16x16xf32>) -> tensor<64x16x16xf32>
    /// of others in one for each;
    // CHECK: hespas.cost{{.*}} high_ns = 1373925{{.*}}latency_ns = 6814587{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 2991361{{.*}}latency_ns = 1624894{{.*}}tag = "assumed transferred"
    %e2 = stablehlo.custom_call @cusolver_syevd_ffi(%l) : (tensor<4x512x512xf32>) -> tensor<4x512x512xf32>
    /// singular values by rotations;
    // CHECK: hespas.cost{{.*}} high_ns = 4472373{{.*}}latency_ns = 2218270{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1689205{{.*}}latency_ns = 9175689{{.*}}tag = "assumed transferred"
    %v1 = stablehlo.custom_call @cusolver_gesvdj_ffi(%m) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    /// and by reduction.
    // CHECK: hespas.cost{{.*}} high_ns = 8363678{{.*}}latency_ns = 4148334{{.*}}tag = "assumed"
    // TPU: hespas.cost{{.*}} high_ns = 1689205{{.*}}latency_ns = 9175689{{.*}}tag = "assumed transferred"
    %v2 = stablehlo.custom_call @cusolver_gesvd_ffi(%m) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %c1, %c2, %t1, %l1, %l2, %q1, %q2, %e1, %e2, %v1, %v2 : tensor<1024x1024xf32>, tensor<64x16x16xf32>, tensor<1024x8xf32>, tensor<64x64x64xf32>, tensor<2x1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<64x16x16xf32>, tensor<4x512x512xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}
