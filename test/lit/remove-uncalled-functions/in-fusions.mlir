// RUN: hespas-opt %s --remove-uncalled-functions | filecheck %s

/// Functions that ops in the body of a fusion refer to stay: of a call, a constant and a custom call.

// CHECK: func.func private @called
// CHECK: func.func private @referred
// CHECK: func.func private @computed
// CHECK-NOT: @dead
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%y: tensor<4xf32>):
    %1 = func.call @called(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %f = func.constant @referred : (tensor<4xf32>) -> tensor<4xf32>
    %2 = mhlo.custom_call @acme(%1) {called_computations = [@computed]} : (tensor<4xf32>) -> tensor<4xf32>
    mhlo.return %2 : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @called(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @referred(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @computed(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
