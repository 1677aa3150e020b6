// RUN: hespas-opt %s --form-kernels --form-kernels --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --fuse-epilogues --form-kernels --split-input-file 2>&1 | filecheck %s --check-prefix=EPILOGUE
// EPILOGUE: warning: form-kernels: the module already has kernels and is not changed

/// Kernels are formed once: a second time the module stays, with a warning. All warnings come first, one for each module.

// CHECK-COUNT-3: warning: form-kernels: the module already has kernels and is not changed
// CHECK-LABEL: module @loop
// CHECK: "mhlo.fusion"
// CHECK-NOT: "mhlo.fusion"
module @loop {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = stablehlo.tanh %x : tensor<1024xf32>
    %1 = stablehlo.negate %0 : tensor<1024xf32>
    return %1 : tensor<1024xf32>
  }
}

// -----

/// The kernels of products, which other passes make, do not count; nothing is fused into them.

// CHECK-LABEL: module @products
// EPILOGUE-LABEL: module @products
// EPILOGUE: %[[F:.*]] = "mhlo.fusion"({{.*}} kOutput
// EPILOGUE: %[[C:.*]] = "mhlo.fusion"({{.*}} kCustom
// EPILOGUE: "mhlo.fusion"(%[[C]]) {{.*}} kLoop
module @products {
  func.func @main(%a: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> tensor<64x256xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<64x256xf32>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.maximum %0, %zero : tensor<64x256xf32>
    %2 = "mhlo.fusion"(%1) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%x: tensor<64x256xf32>):
      %5 = stablehlo.cosine %x : tensor<64x256xf32>
      mhlo.return %5 : tensor<64x256xf32>
    }) {hespas.kernel = {kind = "gemm"}} : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %3 = stablehlo.tanh %2 : tensor<64x256xf32>
    %4 = stablehlo.negate %3 : tensor<64x256xf32>
    return %4 : tensor<64x256xf32>
  }
}

// -----

/// Those of XLA do.

// EPILOGUE-LABEL: module @compiled
module @compiled {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<1024xf32>):
      %1 = stablehlo.cosine %a : tensor<1024xf32>
      mhlo.return %1 : tensor<1024xf32>
    }) : (tensor<1024xf32>) -> tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }
}
