// RUN: hespas-opt %s --allow-unregistered-dialect --annotate-collectives --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --allow-unregistered-dialect --prepare --split-input-file --verify-diagnostics

/// An op of another dialect has one cost, with its body. What the body sends would be in no trace.

module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "acme.scope"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      // expected-error @+1 {{the op communicates in the body of 'acme.scope', which is estimated as one op; lower acme.scope to StableHLO, or move the collective out of it}}
      %1 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
      "acme.yield"(%1) : (tensor<4xf32>) -> ()
    }) {hespas.kernel_cost = {flops = 1 : i64, bytes = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module attributes {mhlo.num_partitions = 2 : i32, hespas.communicators = {"1" = array<i64: 0, 1>}} {
  func.func @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
    %0 = "acme.scope"(%x) ({
      %1 = "stablehlo.if"(%p) ({
        // expected-error @+1 {{the op communicates in the body of 'acme.scope'}}
        %2 = stablehlo.custom_call @acme_sum(%x) {hespas.comm = {kind = "all_reduce", groups = array<i64: 1>, operand_bytes = 16 : i64, result_bytes = 16 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
        stablehlo.return %2 : tensor<4xf32>
      }, {
        stablehlo.return %x : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      "acme.yield"(%1) : (tensor<4xf32>) -> ()
    }) {hespas.kernel_cost = {flops = 1 : i64, bytes = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
