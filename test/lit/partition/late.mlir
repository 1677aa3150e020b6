// RUN: hespas-opt %s --partition --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --roofline-annotate=node=H100_80GB --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --prepare=partition=false --roofline-annotate=node=H100_80GB --split-input-file | filecheck %s

/// A sharding that another pass has written after prepare is refused, because its shapes are those of one device.
/// Whoever says that they are has the shardings removed, and no later pass reads them.

// CHECK: @main(%{{[a-z0-9]*}}: tensor<8x8xf32>)
module @argument attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  // expected-error @+1 {{an argument or result of the function has a sharding that was written after prepare}}
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

// CHECK: @main(%{{[a-z0-9]*}}: tensor<8x8xf32>)
module @shardy attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  sdy.mesh @mesh = <["x"=4]>
  // expected-error @+1 {{an argument or result of the function has a sharding that was written after prepare}}
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

// CHECK: stablehlo.tanh %{{[a-z0-9]*}} {hespas.cost = {{.*}}} : tensor<8x8xf32>
module @op attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{the op has a sharding that was written after prepare}}
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-NOT: sdy
module @constraint attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{the op has a sharding that was written after prepare}}
    %0 = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// A value of one device alone.

// CHECK-NOT: {maximal
module @maximal attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{the op has a sharding that was written after prepare}}
    %0 = stablehlo.tanh %x {mhlo.sharding = "{maximal device=1}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
