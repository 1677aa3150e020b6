// RUN: hespas-opt %s --partition --split-input-file | filecheck %s

/// XLA divides a call along its batch if it says which dimensions these are, as JAX's linear algebra.

// CHECK-LABEL: module @batched
// CHECK-NOT: all_gather
// CHECK: stablehlo.custom_call @cusolver_potrf_ffi({{.*}}) {{.*}} : (tensor<2x16x16xf32>) -> tuple<tensor<2x16x16xf32>, tensor<2xi32>>
module @batched attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x16x16xf32> {mhlo.sharding = "{devices=[4,1,1]<=[4]}"}) -> (tensor<8x16x16xf32> {mhlo.sharding = "{devices=[4,1,1]<=[4]}"}) {
    %0:2 = stablehlo.custom_call @cusolver_potrf_ffi(%x) {backend_config = "", mhlo.backend_config = {lower = true}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>], mhlo.sharding = "{{devices=[4,1,1]<=[4]}, {devices=[4]<=[4]}}"} : (tensor<8x16x16xf32>) -> (tensor<8x16x16xf32>, tensor<8xi32>)
    return %0#0 : tensor<8x16x16xf32>
  }
}

// -----

/// Its matrices are gathered: only the batch is divided.

// CHECK-LABEL: module @matrix
// CHECK: stablehlo.custom_call @cusolver_potrf_ffi({{.*}}) {{.*}} : (tensor<8x16x16xf32>) -> tuple<tensor<8x16x16xf32>, tensor<8xi32>>
module @matrix attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x16x16xf32> {mhlo.sharding = "{devices=[1,1,4]<=[4]}"}) -> (tensor<8x16x16xf32> {mhlo.sharding = "{devices=[1,1,4]<=[4]}"}) {
    %0:2 = stablehlo.custom_call @cusolver_potrf_ffi(%x) {backend_config = "", mhlo.backend_config = {lower = true}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>], mhlo.sharding = "{{devices=[1,1,4]<=[4]}, {replicated}}"} : (tensor<8x16x16xf32>) -> (tensor<8x16x16xf32>, tensor<8xi32>)
    return %0#0 : tensor<8x16x16xf32>
  }
}

// -----

/// Of any other call, XLA knows no batch.

// CHECK-LABEL: module @opaque
// CHECK: all_gather
// CHECK: stablehlo.custom_call @mine({{.*}}) {{.*}} : (tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
module @opaque attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x16x16xf32> {mhlo.sharding = "{devices=[4,1,1]<=[4]}"}) -> (tensor<8x16x16xf32> {mhlo.sharding = "{devices=[4,1,1]<=[4]}"}) {
    %0 = stablehlo.custom_call @mine(%x) : (tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
    return %0 : tensor<8x16x16xf32>
  }
}

// -----

/// XLA cannot divide one without layouts.

// CHECK-LABEL: module @no_layouts
// CHECK: stablehlo.custom_call @cusolver_potrf_ffi({{.*}}) {{.*}} : (tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
module @no_layouts attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x16x16xf32> {mhlo.sharding = "{devices=[4,1,1]<=[4]}"}) -> (tensor<8x16x16xf32> {mhlo.sharding = "{devices=[4,1,1]<=[4]}"}) {
    %0 = stablehlo.custom_call @cusolver_potrf_ffi(%x) {mhlo.frontend_attributes = {num_batch_dims = "1"}, mhlo.sharding = "{devices=[4,1,1]<=[4]}"} : (tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
    return %0 : tensor<8x16x16xf32>
  }
}
