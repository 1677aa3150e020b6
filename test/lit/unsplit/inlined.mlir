// RUN: hespas-opt %s --split-individual | filecheck %s
// RUN: hespas-opt %s --split-linear | filecheck %s --check-prefix=SAME
// RUN: hespas-opt %s --fuse | filecheck %s --check-prefix=FUSE

/// Another tool has inlined the functions of a linear split: what is left of it does not count.
// CHECK: hespas.split = {{{.*}}strategy = "individual"
// CHECK: stablehlo.tanh {{.*}}id = 0
// CHECK: stablehlo.negate {{.*}}id = 1
// SAME: hespas.split = {{{.*}}strategy = "linear"
// SAME: call @region_0
// FUSE-NOT: hespas.split
// FUSE: mhlo.fusion

module attributes {hespas.split = {block_limit = 0 : i64, merge = false, strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.negate %0 {hespas.region = {digest = "aa", id = 5 : i64, ops = 1 : i64}} : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
