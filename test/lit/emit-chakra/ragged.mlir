// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// The kernel of a ragged all-to-all between the devices of a host waits for its loads, which the trace counts.

/// What does not fit in the output is not sent: the buffer of one for the largest load is mostly empty.

// CHECK: COMM_COLL 'all_to_all.0' comm_type=ALL_TO_ALL comm_size=4194304 copy_rounds=2048
// CHECK: COMM_COLL 'all_to_all.1' {{.*}} comm_size=1048576 copy_rounds=512
module @ragged attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<1024x1024xf32>, %n: tensor<2xi64>, %y: tensor<256x1024xf32>) -> tensor<256x1024xf32> {
    %0 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1024x1024xf32>
    %1 = stablehlo.custom_call @ragged_all_to_all(%0, %y, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<1024x1024xf32>, tensor<256x1024xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<256x1024xf32>
    return %1 : tensor<256x1024xf32>
  }
}
