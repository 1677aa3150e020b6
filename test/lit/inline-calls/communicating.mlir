// RUN: hespas-opt %s --inline-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --prepare --prepare --split-input-file | filecheck %s

/// Another pass has moved a collective into a region: it is no region any more.

// CHECK-LABEL: module @moved
// CHECK: func.func @main
// CHECK-NOT: call @region_0
// CHECK: stablehlo.tanh
// CHECK-NOT: hespas.region
// CHECK: "stablehlo.collective_permute"
// CHECK: stablehlo.tanh
// CHECK: "stablehlo.collective_permute"
// CHECK: call @region_1(%{{.*}}) {hespas.region = {
// CHECK-NOT: @region_0
// CHECK: func.func private @region_1({{.*}} attributes {hespas.region
module @moved attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @region_0(%x) {hespas.region = {digest = "aa", id = 0 : i64, ops = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @region_0(%0) {hespas.region = {digest = "aa", id = 1 : i64, ops = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = call @region_1(%1) {hespas.region = {digest = "bb", id = 2 : i64, ops = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @region_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hespas.region = {digest = "aa", id = 0 : i64, ops = 1 : i64}} {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    %1 = call @send(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @region_1(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hespas.region = {digest = "bb", id = 2 : i64, ops = 1 : i64}} {
    %0 = stablehlo.sine %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @send(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// A call that communicates by its hespas.comm does so in each call of its function.

// CHECK-LABEL: module @stated
// CHECK-COUNT-2: @acme(%{{.*}}) {hespas.comm =
// CHECK-NOT: func.func private
module @stated attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @often(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @often(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @often(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @acme(%x) {hespas.comm = {groups = array<i64: 1>, kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// The call of a fusion is one of the calls of its function.

// CHECK-LABEL: module @fused
// CHECK: call @both
// CHECK: "mhlo.fusion"
// CHECK: func.call @both
// CHECK: func.func private @both
module @fused attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @both(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "mhlo.fusion"(%0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%f: tensor<4xf32>):
      %g = func.call @both(%f) : (tensor<4xf32>) -> tensor<4xf32>
      mhlo.return %g : tensor<4xf32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @both(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.sine %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
