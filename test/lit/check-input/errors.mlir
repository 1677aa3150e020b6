// RUN: hespas-opt %s --check-input --split-input-file --verify-diagnostics

/// A function that calls itself.

module {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{the function @f calls itself}}
    %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// Also by way of another one, after a call that is none of itself.

module {
  func.func public @main() {
    call @leaf() : () -> ()
    call @f() : () -> ()
    return
  }
  func.func private @f() {
    call @g() : () -> ()
    return
  }
  func.func private @g() {
    call @leaf() : () -> ()
    // expected-error @+1 {{the function @f calls itself}}
    call @f() : () -> ()
    return
  }
  func.func private @leaf() {
    return
  }
}

// -----

/// What a function without a body costs is unknown.

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @+1 {{the function @elsewhere is called and has no body; add it to the module, or call a kernel by stablehlo.custom_call}}
func.func private @elsewhere(%x: tensor<4xf32>) -> tensor<4xf32>

// -----

/// Jumps between blocks.

func.func public @main(%x: tensor<f32>, %p: i1) -> tensor<f32> {
  %0 = call @f(%p, %x) : (i1, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error @+1 {{the function @f has more than one block; express its control flow with stablehlo.while, if and case}}
func.func private @f(%p: i1, %x: tensor<f32>) -> tensor<f32> {
  cf.cond_br %p, ^bb1(%x : tensor<f32>), ^bb2
^bb1(%0: tensor<f32>):
  return %0 : tensor<f32>
^bb2:
  cf.br ^bb1(%x : tensor<f32>)
}

// -----

/// Arguments and results without a rank.

// expected-error @+1 {{argument 1 of the entry function has the type tensor<*xf32> without a rank; export the program with shapes; single dimensions may be symbolic}}
func.func public @main(%x: tensor<?xf32>, %y: tensor<*xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @+1 {{argument 0 of the entry function has the type memref<*xf32> without a rank}}
func.func public @main(%x: memref<*xf32>) {
  return
}

// -----

// expected-error @+1 {{result 0 of the entry function has the type tensor<*xf32> without a rank}}
func.func public @main(%x: tensor<4xf32>) -> tensor<*xf32> {
  %0 = stablehlo.custom_call @kernel(%x) : (tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

/// Programs of several meshes, by their ops or by their types alone.

func.func public @main(%x: !mpmd.mesh_tensor<"m1", tensor<4xf32>>) -> !mpmd.mesh_tensor<"m2", tensor<4xf32>> attributes {topology = #mpmd.topology<<"m1": <["x"=2]>>, <"m2": <["x"=2]>>>} {
  // expected-error @+1 {{an MPMD program runs different programs on several meshes, and hespas estimates one; export the program of each mesh as a module of its own}}
  %0 = mpmd.transfer %x : (!mpmd.mesh_tensor<"m1", tensor<4xf32>>) -> !mpmd.mesh_tensor<"m2", tensor<4xf32>>
  return %0 : !mpmd.mesh_tensor<"m2", tensor<4xf32>>
}

// -----

// expected-error @+1 {{an MPMD program runs different programs on several meshes}}
func.func public @main(%x: !mpmd.mesh_tensor<"m1", tensor<4xf32>>) attributes {topology = #mpmd.topology<<"m1": <["x"=2]>>>} {
  return
}

// -----

// expected-error @+1 {{an MPMD program runs different programs on several meshes}}
func.func public @main(%x: tensor<4xf32>) -> !mpmd.mesh_tensor<"m1", tensor<4xf32>> attributes {topology = #mpmd.topology<<"m1": <["x"=2]>>>} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to !mpmd.mesh_tensor<"m1", tensor<4xf32>>
  return %0 : !mpmd.mesh_tensor<"m1", tensor<4xf32>>
}
