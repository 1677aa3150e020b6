// RUN: hespas-opt %s --prepare=trip-count=error --split-input-file --verify-diagnostics

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

func.func public @main(%n: tensor<i32>) -> tensor<i32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  // expected-error @+1 {{the trip count of the loop depends on data; set trip-count=N}}
  %0 = stablehlo.while(%i = %c) : tensor<i32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j : tensor<i32>
  }
  return %0 : tensor<i32>
}

// -----

module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<16xf32> {
    // expected-error @+1 {{the collective names cross_replica id 3, but the module is for 2 replicas x 1 partitions}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// expected-error @+1 {{shardings name 8 devices, but mhlo.num_partitions is 4}}
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{several public functions and none is 'main'}}
module {
  func.func @a() { return }
  func.func @b() { return }
}

// -----

/// The function is checked before it is inlined: its first block is not the whole of it.

func.func public @main(%x: tensor<f32>, %p: i1) -> tensor<f32> {
  %0 = stablehlo.tuple %x, %x : tuple<tensor<f32>, tensor<f32>>
  %1 = call @f(%p, %0) : (i1, tuple<tensor<f32>, tensor<f32>>) -> tensor<f32>
  return %1 : tensor<f32>
}
// expected-error @+1 {{the function @f has more than one block; express its control flow with stablehlo.while, if and case}}
func.func private @f(%p: i1, %t: tuple<tensor<f32>, tensor<f32>>) -> tensor<f32> {
  %0 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<f32>, tensor<f32>>) -> tensor<f32>
  cf.cond_br %p, ^bb1(%0 : tensor<f32>), ^bb2
^bb1(%1: tensor<f32>):
  return %1 : tensor<f32>
^bb2:
  cf.br ^bb1(%0 : tensor<f32>)
}

// -----

// expected-error @+1 {{argument 0 of the entry function has the type tensor<*xf32> without a rank; export the program with shapes}}
func.func public @main(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// -----

func.func public @main(%x: !stablehlo.future<tensor<4xf32>>) -> tensor<4xf32> {
  // expected-error @+1 {{no async_start in its block starts what it waits for}}
  %0 = "stablehlo.async_done"(%x) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%x: !mpmd.mesh_tensor<"m1", tensor<4xf32>>) -> !mpmd.mesh_tensor<"m2", tensor<4xf32>> attributes {topology = #mpmd.topology<<"m1": <["x"=2]>>, <"m2": <["x"=2]>>>} {
  // expected-error @+1 {{an MPMD program runs different programs on several meshes, and hespas estimates one; export the program of each mesh}}
  %0 = mpmd.transfer %x : (!mpmd.mesh_tensor<"m1", tensor<4xf32>>) -> !mpmd.mesh_tensor<"m2", tensor<4xf32>>
  return %0 : !mpmd.mesh_tensor<"m2", tensor<4xf32>>
}

// -----

/// MLIR verifies groups only where they are lists.

sdy.mesh @mesh = <["x"=2]>
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the groups of its mesh axes do not fit: group size of replica_groups must be 1}}
  %0 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>, split_count = 1 : i64, split_dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%x: tensor<8xf32>, %n: tensor<2xi64>) -> tensor<8xf32> {
  // expected-error @+1 {{the list of its devices is not a dense attribute of integers}}
  %0 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {replica_groups = [[0, 1]]}} : (tensor<8xf32>, tensor<8xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// What a function without a body costs is unknown.

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @+1 {{the function @elsewhere is called and has no body; add it to the module, or call a kernel by stablehlo.custom_call}}
func.func private @elsewhere(%x: tensor<4xf32>) -> tensor<4xf32>
