// RUN: hespas-opt %s --partition --split-input-file --verify-diagnostics

/// XLA ignores a sharding that it cannot read, wherever it stands; the program would not be divided.

module @op attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{XLA cannot read the sharding {devices=[2,1]<=[1,2]}; write it as in {devices=[2,1]<=[2]}}}
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[2,1]<=[1,2]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module @argument attributes {mhlo.num_partitions = 2 : i32} {
  // expected-error @+1 {{XLA cannot read the sharding {devices=[two,1]<=[2]}}}
  func.func @main(%y: tensor<8xf32> {mhlo.sharding = "{replicated}"}, %x: tensor<8x8xf32> {mhlo.sharding = "{devices=[two,1]<=[2]}"}) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

module @result attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = call @inner(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  // expected-error @+1 {{XLA cannot read the sharding {devices=[2,1]}}}
  func.func private @inner(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]}"}) {
    return %x : tensor<8x8xf32>
  }
}

// -----

module @number attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x8xf32> {
    // expected-error @+1 {{mhlo.sharding is 2 : i64, no string; correct it, or remove it}}
    %0 = stablehlo.tanh %x {mhlo.sharding = 2 : i64} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module @only_number attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{mhlo.sharding is 3 : i32, no string; correct it, or remove it}}
    %0 = stablehlo.tanh %x {mhlo.sharding = 3 : i32} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module @location attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{mhlo.sharding is a location, no sharding; correct it, or remove it}}
    %0 = stablehlo.tanh %x {mhlo.sharding = loc("x")} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module @argument_location attributes {mhlo.num_partitions = 2 : i32} {
  // expected-error @+1 {{mhlo.sharding is a location, no sharding; correct it, or remove it}}
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = loc("x")}) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

/// What the partitioner has left behind is not read.

module @left_behind attributes {mhlo.is_dynamic = false} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.tanh %x {mhlo.sharding = "{mesh['x'=two], [{'x'}, {}]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
