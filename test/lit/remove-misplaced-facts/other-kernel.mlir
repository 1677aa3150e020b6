// RUN: hespas-opt %s --remove-misplaced-facts | filecheck %s
// RUN: hespas-opt %s --remove-misplaced-facts --remove-misplaced-facts | filecheck %s

/// The declared work of a kernel goes if another one is called in its place.

// CHECK: @zed(%arg0) : (tensor<4xf32>)
// CHECK: @acme(%arg0) {hespas.kernel_cost = {bytes = 200 : i64, flops = 100 : i64, kernel = "acme"}}
module attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.custom_call @zed(%x) {hespas.kernel_cost = {bytes = 200 : i64, flops = 100 : i64, kernel = "acme"}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @acme(%x) {hespas.kernel_cost = {bytes = 200 : i64, flops = 100 : i64, kernel = "acme"}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
