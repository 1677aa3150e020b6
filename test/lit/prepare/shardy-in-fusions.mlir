// RUN: hespas-opt %s --prepare --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --prepare=partition=false --split-input-file 2>&1 | filecheck %s

/// What marks something for Shardy in a kernel is removed, like elsewhere, with the mesh that it names; what divides
/// values there has no meaning.

// CHECK-LABEL: module @markers
// CHECK-NOT: sdy.
// CHECK: mhlo.return
module @markers attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%y: tensor<8xf32>):
      %1 = stablehlo.sine %y : tensor<8xf32>
      %2 = sdy.sharding_constraint %1 <@mesh, [{}]> : tensor<8xf32>
      %3 = sdy.propagation_barrier %2 allowed_direction=NONE : tensor<8xf32>
      mhlo.return %3 : tensor<8xf32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @dividing
// CHECK-NOT: sdy.
// CHECK: mhlo.return
module @dividing {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%y: tensor<8xf32>):
      // expected-error @+1 {{the op divides a value in a kernel, which XLA cannot; move it out of the fusion; or hespas-opt --prepare=partition=false, if the shapes are those of one device}}
      %1 = sdy.sharding_constraint %y <@mesh, [{"x"}]> : tensor<8xf32>
      mhlo.return %1 : tensor<8xf32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Another pass has written it after prepare.

module @late attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}} {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%y: tensor<8xf32>):
      // expected-error @+1 {{the op has a sharding that was written after prepare, which has made all shapes those of one device}}
      %1 = sdy.reshard %y <@mesh, [{"x"}]> : tensor<8xf32>
      mhlo.return %1 : tensor<8xf32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
