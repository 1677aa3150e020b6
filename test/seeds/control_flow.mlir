module @loops {
  func.func @main(%x: tensor<4x8xf32>, %k: tensor<3x3x1x2xf32>, %i: tensor<2x1xi32>) -> (tensor<4x8xf32>, tensor<1x4x8x2xf32>) {
    %c0 = stablehlo.constant dense<0> : tensor<i32>
    %c5 = stablehlo.constant dense<5> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.while(%iter = %c0, %value = %x) : tensor<i32>, tensor<4x8xf32>
    cond {
      %less = stablehlo.compare LT, %iter, %c5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %iter, %one : tensor<i32>
      %exp = stablehlo.exponential %value : tensor<4x8xf32>
      stablehlo.return %next, %exp : tensor<i32>, tensor<4x8xf32>
    }
    %1 = stablehlo.reduce(%0#1 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
    %3 = "stablehlo.gather"(%2, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<2x1xi32>) -> tensor<2x8xf32>
    %4 = stablehlo.concatenate %3, %3, dim = 0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<4x8xf32>) -> tensor<1x4x8x1xf32>
    %6 = stablehlo.convolution(%5, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x8x1xf32>, tensor<3x3x1x2xf32>) -> tensor<1x4x8x2xf32>
    %7 = stablehlo.slice %4 [0:4:2, 0:8] : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %8 = stablehlo.pad %7, %zero, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<2x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %9 = "stablehlo.sort"(%8) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %less = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = "stablehlo.case"(%c0) ({
      stablehlo.return %9 : tensor<4x8xf32>
    }, {
      stablehlo.return %2 : tensor<4x8xf32>
    }) : (tensor<i32>) -> tensor<4x8xf32>
    return %10, %6 : tensor<4x8xf32>, tensor<1x4x8x2xf32>
  }
}
