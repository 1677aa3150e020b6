// RUN: hespas-opt %s --remove-markers --annotate-collectives=local-shapes --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --prepare=partition=false --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --annotate-collectives=local-shapes --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=H100_80GB --split-input-file --verify-diagnostics

/// Ops of Shardy between the shapes of all devices and those of one are refused where shapes are those of one.

module @manual attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{the op divides or joins values by a sharding, and all shapes are taken as those of one device; run the pass that writes it before --prepare; do not set partition=false or local-shapes}}
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%z: tensor<8x8xf32>) {
      %1 = stablehlo.tanh %z : tensor<8x8xf32>
      sdy.return %1 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module @sum attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{the op divides or joins values by a sharding}}
    %0 = sdy.all_reduce {"x"} %x out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// What does nothing on one device is removed by a pass of its own.
// CHECK: shardy-ops.mlir:39:10: error: 'sdy.sharding_constraint': the op marks something for Shardy; run --remove-markers first

module @markers attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = sdy.sharding_constraint %x <@mesh, [{}, {}]> : tensor<8x8xf32>
    %1 = sdy.named_computation<"f">(%0) (%y: tensor<8x8xf32>) {
      %2 = stablehlo.tanh %y : tensor<8x8xf32>
      sdy.return %2 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
