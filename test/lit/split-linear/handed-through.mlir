// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-input-file | filecheck %s

/// Another pass may have made a region return what it reads. Its digest is another one than that of a region that returns
/// what it computes of it.

// CHECK: call @region_0({{.*}}hespas.region = {digest = "[[D:[0-9a-f]+]]", id = 0 : i64, ops = 2 : i64}
// CHECK-NOT: digest = "[[D]]"
// CHECK: call @region_1({{.*}}hespas.region = {{.*}}id = 1 : i64, ops = 2 : i64}
// CHECK: return
module attributes {
  hespas.split = {strategy = "linear"}, hespas.communicators = {},
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}
} {
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = call @region_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @region_1(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
  func.func private @region_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.region = {digest = "0123456789abcdef", id = 0 : i64, ops = 2 : i64}} {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @region_1(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.region = {digest = "0123456789abcdef", id = 1 : i64, ops = 2 : i64}} {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.sine %x : tensor<8xf32>
    return %x : tensor<8xf32>
  }
}
