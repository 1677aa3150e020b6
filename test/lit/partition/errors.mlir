// RUN: hespas-opt %s --partition --split-input-file --verify-diagnostics

/// More devices than partitions.

// expected-error @+1 {{shardings name 8 devices, but mhlo.num_partitions is 4}}
module @mesh attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

/// No partition.

// expected-error @+1 {{mhlo.num_partitions is 0, less than 1}}
module @counts attributes {mhlo.num_partitions = 0 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

/// A sharding that XLA refuses.

// expected-error @+1 {{shapes are global and XLA could not partition the module: Number of tile assignment dimensions (excluding subgroups) is different than the input rank}}
module @uneven attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

/// A sharding that has no effect.

// expected-error @+1 {{shapes are global and XLA could not partition the module: the sharding of argument 0 has no effect; export the module after SPMD partitioning}}
module @scalar attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<1xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<1xf32> {
    return %x : tensor<1xf32>
  }
}

// -----

/// A kernel with a rule in Python.

module @custom attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<8xf32> {
    // expected-error @+1 {{the partitioning rule of this kernel is a Python function of the process that lowered the program; let hespas export lower the program}}
    %0 = stablehlo.custom_call @CustomSPMDPartitioning(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Shardings of ops count too.

// expected-error @+1 {{shardings name 4 devices, but mhlo.num_partitions is 2}}
module @op_devices attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// The type of Shardy's attribute instead of its name.

module @misnamed {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{Shardy knows no attribute sdy.sharding_per_value; name it sdy.sharding}}
    %0 = stablehlo.tanh %x {sdy.sharding_per_value = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// An axis that the mesh of HLO's form lacks.

// expected-error @+1 {{has a form that is not known}}
module @part attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{mesh['a'=4], [{'b'}, {}]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// What Shardy's own passes add, XLA cannot read.

// expected-error @+1 {{'sdy.data_flow_edge' op unsupported op for export to XLA; run sdy-export-pipeline first}}
module @edges attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.data_flow_edge %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
