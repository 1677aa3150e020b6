// RUN: hespas-opt %s --unsplit | filecheck %s

/// The function of a region that another op names stays.

// CHECK: stablehlo.sine
// CHECK: stablehlo.composite "acme.layer"{{.*}} @region_0
// CHECK: func.func private @region_0(%arg0: tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NOT: func.func
module attributes {hespas.split = {strategy = "linear"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @region_0(%x) {hespas.region = {digest = "aa", id = 0 : i64, ops = 1 : i64}} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.composite "acme.layer" %0 {decomposition = @region_0} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @region_1(%1) {hespas.region = {digest = "aa", id = 0 : i64, ops = 1 : i64}} : (tensor<8xf32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
  func.func private @region_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.region = {digest = "aa", id = 0 : i64, ops = 1 : i64}} {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @region_1(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.region = {digest = "aa", id = 1 : i64, ops = 1 : i64}} {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
