// RUN: hespas-opt %s --inline-calls --split-input-file --verify-diagnostics

/// An async op that ends elsewhere, as pipelined collectives do.

module {
  func.func @main(%x: tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>> {
    // expected-error @+1 {{the async op that starts here is passed out of its block by 'func.return'; compile without collective pipelining (--xla_gpu_enable_pipelined_*=false)}}
    %0 = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    return %0 : !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
  }
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A function that calls itself.

module {
  func.func @main() {
    call @f() : () -> ()
    return
  }
  func.func private @f() {
    call @g() : () -> ()
    return
  }
  func.func private @g() {
    // expected-error @+1 {{the function @f calls itself}}
    call @f() : () -> ()
    return
  }
}

// -----

/// An op that names a function which communicates, and is estimated as one.

module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{@send communicates, and 'stablehlo.custom_call', which names it, is estimated as one op; call @send with func.call}}
    %0 = stablehlo.custom_call @acme(%x) {called_computations = [@send], hespas.kernel_cost = {bytes = 16 : i64, flops = 0 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @send(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
