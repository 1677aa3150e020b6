// RUN: hespas-opt %s --remove-markers --split-input-file | filecheck %s
// RUN: hespas-opt %s --remove-markers --remove-markers --split-input-file | filecheck %s

/// Calls that forward their operands go, also with several results, and other calls stay.

// CHECK-LABEL: module @forwards
// CHECK: func.func public @main(%[[X:.*]]: tensor<8xf32>, %[[Y:.*]]: tensor<4xi8>)
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: %[[K:.*]] = stablehlo.custom_call @kernel(%[[T]])
// CHECK-NEXT: return %[[K]], %[[Y]]
module @forwards {
  func.func public @main(%x: tensor<8xf32>, %y: tensor<4xi8>) -> (tensor<8xf32>, tensor<4xi8>) {
    %0 = stablehlo.custom_call @LayoutConstraint(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    %2 = stablehlo.custom_call @Sharding(%1) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = stablehlo.custom_call @kernel(%2) : (tensor<8xf32>) -> tensor<8xf32>
    %4:2 = stablehlo.custom_call @PipelineMarker(%3, %y) : (tensor<8xf32>, tensor<4xi8>) -> (tensor<8xf32>, tensor<4xi8>)
    return %4#0, %4#1 : tensor<8xf32>, tensor<4xi8>
  }
}

// -----

/// So do those of XLA's partitioners and of MHLO, in a called function and in a chain.

// CHECK-LABEL: module @partitioners
// CHECK: func.func private @f(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: return %[[X]]
module @partitioners {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.custom_call @SPMDFullToShardShape(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.custom_call @SPMDShardToFullShape(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%1) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%2) : (tensor<8xf32>) -> tensor<8xf32>
    %4 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%3) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = "mhlo.custom_call"(%4) {call_target_name = "Sharding"} : (tensor<8xf32>) -> tensor<8xf32>
    return %5 : tensor<8xf32>
  }
}

// -----

/// An assertion of shapes goes; what computes its condition stays for the pass that removes what nobody reads.

// CHECK-LABEL: module @assertion
// CHECK: func.func public @main
// CHECK-NEXT: stablehlo.constant dense<true>
// CHECK-NEXT: return
module @assertion {
  func.func public @main() {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "b", has_side_effect = true} : (tensor<i1>) -> ()
    return
  }
}

// -----

/// A marker that changes a type or the number of values stays, for a later pass to report, and so does an assertion
/// that returns something.

// CHECK-LABEL: module @changes
// CHECK: stablehlo.custom_call @Sharding
// CHECK-NEXT: stablehlo.custom_call @PipelineMarker
// CHECK-NEXT: stablehlo.custom_call @PipelineMarker
// CHECK-NEXT: stablehlo.custom_call @shape_assertion
module @changes {
  func.func public @main(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<i1>) {
    %0 = stablehlo.custom_call @Sharding(%x) : (tensor<8xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @PipelineMarker(%x, %0) : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
    %3:2 = stablehlo.custom_call @PipelineMarker(%x, %0) : (tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<2xf32>)
    %2 = stablehlo.custom_call @shape_assertion(%1) : (tensor<8xf32>) -> tensor<i1>
    return %0, %1, %2 : tensor<4xf32>, tensor<8xf32>, tensor<i1>
  }
}

// -----

/// A call without results may have an effect that nobody knows.

// CHECK-LABEL: module @effect
// CHECK: stablehlo.custom_call @effect
module @effect {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    stablehlo.custom_call @effect(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
    return %x : tensor<8xf32>
  }
}

// -----

/// In a module of local shapes Shardy's constants are constants, and its markers and named computations are their bodies.

// CHECK-LABEL: module @shardy
// CHECK: func.func public @main(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK-NEXT: %[[A:.*]] = stablehlo.add %[[X]], %[[C]]
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[A]]
// CHECK-NEXT: return %[[T]]
module @shardy {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %c = sdy.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %x, %c : tensor<8xf32>
    %1 = sdy.data_flow_edge %0 sharding=<@mesh, [{}]> : tensor<8xf32>
    %2 = sdy.named_computation<"f">(%1) (%a: tensor<8xf32>) {
      %4 = stablehlo.tanh %a : tensor<8xf32>
      %5 = sdy.propagation_barrier %4 allowed_direction=NONE : tensor<8xf32>
      sdy.return %5 : tensor<8xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    sdy.sharding_group %2 group_id=0 : tensor<8xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{}]> : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
