// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e compiler-estimates" -o %t.mlir 2> %t.err
// RUN: filecheck %s --input-file %t.mlir
// RUN: not grep "does not count" %t.err
// RUN: sed s/stablehlo.tanh/stablehlo.cosine/ %s | hespas-opt --roofline-annotate="node=TPUv5e compiler-estimates" 2>&1 | filecheck %s --check-prefix=OP
// RUN: sed s/512/1024/g %s | hespas-opt --roofline-annotate="node=TPUv5e compiler-estimates" 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: sed s/stablehlo.sine/stablehlo.cosine/ %s | hespas-opt --roofline-annotate="node=TPUv5e compiler-estimates" 2>&1 | filecheck %s --check-prefix=BODY
// RUN: sed s/stablehlo.sine/stablehlo.cosine/ %t.mlir | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: sed s/stablehlo.sine/stablehlo.cosine/ %s | hespas-opt --roofline-annotate=node=TPUv5e 2>&1 | filecheck %s --check-prefix=UNUSED
// RUN: sed "s/^func.func/module attributes {hespas.facts = {optimised_for = \"TPUv6e\"}} { &/; s/^}/}}/" %s | hespas-opt --roofline-annotate="node=TPUv5e compiler-estimates" 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: sed "s/^func.func/module attributes {hespas.facts = {optimised_for = \"TPUv6e\"}} { &/; s/^}/}}/" %s | hespas-opt --roofline-annotate=node=TPUv5e 2>&1 | filecheck %s --check-prefix=UNUSED

/// An estimate of the compiler is of the kernel that it has timed. If another pass changes its name, types or body,
/// it does not count, with a warning, also if the kernel has a cost already; names, facts of hespas and attributes
/// of other tools change nothing. Times for another device are a warning.

// CHECK-NOT: warning
// CHECK: constants = "TPUv5e; XLA's estimated cycles of 2 distinct kernels"
// CHECK: stablehlo.tanh {{.*}}latency_ns = 3.000500e+03 : f64, read_bytes
// CHECK: mhlo.fusion
// CHECK: latency_ns = 5.000500e+03 : f64, read_bytes
// OP: warning: stablehlo.cosine (<stdin>:{{[0-9]+}}:8) changed after the compiler had timed it: hespas.compiler_estimate does not count, and roofline estimates the kernel
// OP: constants = "TPUv5e; XLA's estimated cycles of 1 distinct kernels"
// TYPE: warning: stablehlo.tanh (<stdin>:{{[0-9]+}}:8), mhlo.fusion (<stdin>:{{[0-9]+}}:8) changed after
// TYPE: constants = "TPUv5e"
// BODY: warning: mhlo.fusion (<stdin>:{{[0-9]+}}:8) changed after
// BODY: estimated cycles of 1 distinct kernels
// AFTER: estimated again by roofline-annotate{node=TPUv5e compiler-estimates}
// AFTER: warning: mhlo.fusion (<stdin>:{{[0-9]+}}:10) changed after the compiler had timed it
// AFTER: estimated cycles of 1 distinct kernels
// TARGET: warning: the compiler has timed the kernels for TPUv6e, and the node is TPUv5e
// UNUSED-NOT: warning
// UNUSED: stablehlo.tanh
func.func @main(%a: tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>) {
  %0 = stablehlo.tanh %a {acme.note = 1 : i64, hespas.compiler_estimate = {cycles = 4000 : i64, digest = "808e4253780196e8", latency_ns = 3000.5 : f64}} : tensor<512xf32>
  %1 = "mhlo.fusion"(%a) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%b: tensor<512xf32>):
    %2 = stablehlo.sine %b : tensor<512xf32>
    mhlo.return %2 : tensor<512xf32>
  }) {hespas.compiler_estimate = {cycles = 4000 : i64, digest = "358d1d4abd841f82", latency_ns = 5000.5 : f64}, hespas.kernel = {kind = "loop"}} : (tensor<512xf32>) -> tensor<512xf32>
  return %0, %1 : tensor<512xf32>, tensor<512xf32>
}
