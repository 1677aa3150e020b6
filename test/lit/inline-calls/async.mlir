// RUN: hespas-opt %s --inline-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --inline-calls --inline-calls --split-input-file | filecheck %s

/// An async pair becomes the collective, and a barrier where it must have finished. One computation
/// called by two pairs is two collectives. Asynchronous work that does not communicate is just work.

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%[[X]])
// CHECK-SAME: hespas.comm = {is_async = true}
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[G]] : tensor<8xf32>
// CHECK-NEXT: %[[G2:.*]] = "stablehlo.all_gather"(%[[T]])
// CHECK-SAME: hespas.comm = {is_async = true}
// CHECK-NEXT: %[[W2:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[G2]]
// CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[W]]
// CHECK-NEXT: stablehlo.add %[[N]], %[[W2]]
// CHECK-NOT: async
// CHECK-NOT: func.func
func.func public @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %0 = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
  %1 = stablehlo.tanh %x : tensor<4xf32>
  %2 = "mhlo.async_update"(%0) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
  %3 = "mhlo.async_done"(%2) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
  %4 = "mhlo.async_start"(%1) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
  %5 = "mhlo.async_done"(%4) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
  %6 = "mhlo.async_start"(%3) <{called_computation = @negate, execution_thread = "main"}> : (tensor<8xf32>) -> !mhlo.async_bundle<tensor<8xf32>, tensor<8xf32>>
  %7 = "mhlo.async_done"(%6) {called_computation = @negate, execution_thread = "main"} : (!mhlo.async_bundle<tensor<8xf32>, tensor<8xf32>>) -> tensor<8xf32>
  %8 = stablehlo.add %7, %5 : tensor<8xf32>
  return %8 : tensor<8xf32>
}
func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @negate(%x: tensor<8xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
  %0 = stablehlo.negate %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// StableHLO's own form carries its computation as a region.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"
// CHECK: }) {hespas.comm = {is_async = true}}
// CHECK: stablehlo.optimization_barrier {hespas.wait = true} %[[R]]
// CHECK-NOT: async_done
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.async_start"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb1(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
  %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

/// Two results of one computation are two values behind one barrier.

// CHECK-LABEL: module @results
// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%[[X]])
// CHECK-SAME: hespas.comm = {is_async = true}
// CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT: %[[W:.*]]:2 = stablehlo.optimization_barrier {hespas.wait = true} %[[G]], %[[N]]
// CHECK-NEXT: return %[[W]]#0, %[[W]]#1
module @results {
  func.func @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
    %0 = "mhlo.async_start"(%x) <{called_computation = @both, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tuple<tensor<8xf32>, tensor<4xf32>>>
    %1:2 = "mhlo.async_done"(%0) {called_computation = @both, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tuple<tensor<8xf32>, tensor<4xf32>>>) -> (tensor<8xf32>, tensor<4xf32>)
    return %1#0, %1#1 : tensor<8xf32>, tensor<4xf32>
  }
  func.func private @both(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %1 = stablehlo.negate %x : tensor<4xf32>
    return %0, %1 : tensor<8xf32>, tensor<4xf32>
  }
}

// -----

/// A slice that StableHLO's form runs beside other ops is just work, and so has no barrier.

// CHECK-LABEL: module @slice
// CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[S:.*]] = stablehlo.slice %[[X]]
// CHECK-NEXT: return %[[S]]
module @slice {
  func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<8xf32>):
      %1 = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }) : (tensor<8xf32>) -> !stablehlo.future<tensor<4xf32>>
    %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

/// What hespas.comm says already stays.

// CHECK-LABEL: module @marked
// CHECK: hespas.comm = {is_async = true, network = "host"}
module @marked {
  func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      %1 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {network = "host"}} : (tensor<4xf32>) -> tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) : (tensor<4xf32>) -> !stablehlo.future<tensor<8xf32>>
    %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
