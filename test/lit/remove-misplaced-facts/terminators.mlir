// RUN: hespas-opt %s --remove-misplaced-facts --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --remove-misplaced-facts --split-input-file 2>&1 | filecheck %s
// RUN: not hespas-opt %s --remove-misplaced-facts --remove-misplaced-facts --split-input-file 2>&1 | filecheck %s

/// The end of a block is neither kernel nor region. In a prepared module another pass has copied such a mark, elsewhere
/// it is a mistake of the author.

// CHECK-LABEL: module @prepared
// CHECK: stablehlo.tanh {{.*}}hespas.kernel = {kind = "loop"}
// CHECK-NEXT: return %{{[0-9]*}} : tensor<4xf32>
module @prepared attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.kernel = {kind = "loop"}} : tensor<4xf32>
    return {hespas.kernel = {kind = "loop"}, hespas.on_chip = {read_bytes = array<i64: 8>, sram_bytes = array<i64: 64>, write_bytes = array<i64: 8>}, hespas.recomputed = "a", hespas.region = {digest = "d", id = 0 : i64}} %0 : tensor<4xf32>
  }
}

// -----

func.func @kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{hespas.kernel is an attribute of: kernel function, fusion or op; remove it from func.return}}
  return {hespas.kernel = {kind = "loop"}} %x : tensor<4xf32>
}

// -----

func.func @region(%x: tensor<4xf32>, %p: tensor<i32>) -> tensor<4xf32> {
  %0 = "stablehlo.case"(%p) ({
    // expected-error @+1 {{hespas.region is an attribute of: region function, its calls, a single op that is a region; remove it from stablehlo.return}}
    "stablehlo.return"(%x) {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} : (tensor<4xf32>) -> ()
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
