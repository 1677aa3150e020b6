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
