// RUN: hespas-opt %s --xla-optimize=target=cpu --split-input-file --verify-diagnostics

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{XLA has optimised this module already; use the module before optimisation}}
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%y: tensor<4xf32>):
    %1 = stablehlo.negate %y : tensor<4xf32>
    mhlo.return %1 : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{the module is prepared for estimation already; put --xla-optimize before the other passes}}
module attributes {hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

func.func public @main(%x: tensor<4xf32>, %t: !stablehlo.token) -> tensor<4xf32> {
  // expected-error @+1 {{XLA's compilers do not accept this op: failed to legalize operation 'mhlo.add_dependency'}}
  %0 = "mhlo.add_dependency"(%x, %t) : (tensor<4xf32>, !stablehlo.token) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{XLA could not optimise the module for cpu: dialect 'math' is unknown}}
module {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = math.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{the function @main has more than one block; express its control flow with stablehlo.while, if and case}}
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{XLA has optimised this module already; use the module before optimisation}}
module attributes {hespas.facts = {scheduled_by = "XLA:GPU"}} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
