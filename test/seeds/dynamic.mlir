module @dynamic {
  func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
    %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %eight = stablehlo.constant dense<8> : tensor<1xi32>
    %shape = stablehlo.concatenate %n1, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.dynamic_broadcast_in_dim %one, %shape, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x8xf32>
    %1 = stablehlo.add %x, %0 : tensor<?x8xf32>
    return %1 : tensor<?x8xf32>
  }
}
