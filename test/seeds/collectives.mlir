module @seed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%x: tensor<8x16xbf16>, %w: tensor<16x16xbf16>) -> (tensor<8x16xf32> {jax.result_info = "result"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16> loc("jit(step)/dot"("model.py":3:4))
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<8x16xbf16>) -> tensor<32x16xbf16>
    %3 = "stablehlo.reduce_scatter"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<32x16xbf16>) -> tensor<8x16xbf16>
    %4 = "stablehlo.collective_permute"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %5 = "stablehlo.all_to_all"(%4) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<8x16xbf16>) -> tensor<4x32xbf16>
    %6 = stablehlo.reshape %5 : (tensor<4x32xbf16>) -> tensor<8x16xbf16>
    %7 = call @activation(%6) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %8 = stablehlo.convert %7 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    return %8 : tensor<8x16xf32>
  }
  func.func private @activation(%x: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
    %0 = chlo.erf %x : tensor<8x16xbf16> -> tensor<8x16xbf16>
    %1 = stablehlo.custom_call @annotate_device_placement(%0) {backend_config = "", has_side_effect = false} : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    return %1 : tensor<8x16xbf16>
  }
}
