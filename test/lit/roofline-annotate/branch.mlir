// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" | filecheck %s

/// An op with branches costs the one that runs; a call costs its function, and a fusion its operands,
/// results and inner operations.

// CHECK: "stablehlo.if"
// CHECK: }) {hespas.branch = 0 : i64, {{.*}}hespas.cost = {{{.*}}latency_ns = 8.192000e+00 : f64, read_bytes = 4096
// CHECK: "mhlo.fusion"
// CHECK: }) {hespas.cost = {{{.*}}flops = 2048 : i64, {{.*}}read_bytes = 4096 : i64, write_bytes = 4096{{.*}}hespas.kernel = {kind = "loop"}
// CHECK: call @twice({{.*}}hespas.cost = {{{.*}}latency_ns = 1.638400e+01
// CHECK: call @twice({{.*}}hespas.cost = {{{.*}}latency_ns = 1.638400e+01
func.func @main(%p: tensor<i1>, %x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = "stablehlo.if"(%p) ({
    %a = stablehlo.negate %x : tensor<1024xf32>
    stablehlo.return %a : tensor<1024xf32>
  }, {
    stablehlo.return %x : tensor<1024xf32>
  }) : (tensor<i1>) -> tensor<1024xf32>
  %1 = "mhlo.fusion"(%0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<1024xf32>):
    %b = stablehlo.negate %a : tensor<1024xf32>
    %c = stablehlo.add %b, %a : tensor<1024xf32>
    mhlo.return %c : tensor<1024xf32>
  }) : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = func.call @twice(%1) : (tensor<1024xf32>) -> tensor<1024xf32>
  %3 = func.call @twice(%2) : (tensor<1024xf32>) -> tensor<1024xf32>
  return %3 : tensor<1024xf32>
}
func.func private @twice(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.negate %x : tensor<1024xf32>
  %1 = stablehlo.tanh %0 : tensor<1024xf32>
  return %1 : tensor<1024xf32>
}
