// RUN: hespas-opt %s --replace-host-transfers --split-input-file | filecheck %s
// RUN: hespas-opt %s --replace-host-transfers --replace-host-transfers --split-input-file | filecheck %s

/// A send to and a receive from the host become calls with a side effect, whose time is not known.

// CHECK-LABEL: module @host
// CHECK: func.func @main(%[[X:.*]]: tensor<f32>, %[[T:.*]]: !stablehlo.token)
// CHECK-NEXT: %[[S:.*]] = stablehlo.custom_call @SendToHost(%[[X]], %[[T]]) {has_side_effect = true} : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
// CHECK-NEXT: %[[R:.*]]:2 = stablehlo.custom_call @RecvFromHost(%[[S]]) {has_side_effect = true} : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
module @host {
  func.func @main(%x: tensor<f32>, %t: !stablehlo.token) -> (tensor<f32>, !stablehlo.token) {
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
    %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true, source_target_pairs = dense<> : tensor<0xi64>}> : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
    return %1#0, %1#1 : tensor<f32>, !stablehlo.token
  }
}

// -----

/// In MHLO too, and in a called function.

// CHECK-LABEL: module @mhlo
// CHECK: mhlo.custom_call @RecvFromHost(%{{.*}}) {has_side_effect = true} : (!mhlo.token) -> (tensor<f32>, !mhlo.token)
// CHECK: func.func private @send
// CHECK-NEXT: mhlo.custom_call @SendToHost(%{{.*}}) {has_side_effect = true} : (tensor<f32>, !mhlo.token) -> !mhlo.token
module @mhlo {
  func.func @main(%t: !mhlo.token) -> !mhlo.token {
    %0:2 = "mhlo.recv"(%t) <{channel_handle = #mhlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> : (!mhlo.token) -> (tensor<f32>, !mhlo.token)
    %1 = call @send(%0#0, %0#1) : (tensor<f32>, !mhlo.token) -> !mhlo.token
    return %1 : !mhlo.token
  }
  func.func private @send(%x: tensor<f32>, %t: !mhlo.token) -> !mhlo.token {
    %0 = "mhlo.send"(%x, %t) <{channel_handle = #mhlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<f32>, !mhlo.token) -> !mhlo.token
    return %0 : !mhlo.token
  }
}

// -----

/// What goes to another device stays.

// CHECK-LABEL: module @devices
// CHECK: "stablehlo.send"
// CHECK: "stablehlo.recv"
// CHECK-NOT: custom_call
module @devices {
  func.func @main(%x: tensor<f32>, %t: !stablehlo.token) -> (tensor<f32>, !stablehlo.token) {
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
    %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
    return %1#0, %1#1 : tensor<f32>, !stablehlo.token
  }
}
