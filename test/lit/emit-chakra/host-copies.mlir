// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --input-file %t/module_stats.json
// RUN: hespas-opt %s --split-individual --roofline-annotate=node=H100_80GB --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --check-prefix=FLOW --input-file %t/module_stats.json

/// The step of a device without collectives is known: 80 us for each copy, 321 and 3 for the kernels, one after the other
/// in program order. With data flow the copies run beside the first kernel, and the kernels still one after the other.

// CHECK: "host_copies": {"count": 2, {{.*}}"step_ns": 483024.0
// FLOW: "host_copies": {"count": 2, {{.*}}"step_ns": 323024.0
module {
  func.func private @offload(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> attributes {execution_thread = "main"} {
    %0 = stablehlo.custom_call @MoveToHost(%x) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %0 : tensor<1024x1024xf32>
  }
  func.func public @main(%x: tensor<1024x1024xf32>, %y: tensor<65536x1024xf32>, %z: tensor<1024x1024xf32> {mhlo.memory_kind = "pinned_host"}) -> (tensor<65536x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %h = "mhlo.async_start"(%x) <{called_computation = @offload, execution_thread = "main"}> : (tensor<1024x1024xf32>) -> !mhlo.async_bundle<tensor<1024x1024xf32>, tensor<1024x1024xf32>>
    %t = stablehlo.tanh %y : tensor<65536x1024xf32>
    %n = stablehlo.negate %t : tensor<65536x1024xf32>
    %e = "mhlo.async_done"(%h) {called_computation = @offload, execution_thread = "main"} : (!mhlo.async_bundle<tensor<1024x1024xf32>, tensor<1024x1024xf32>>) -> tensor<1024x1024xf32>
    %back = stablehlo.custom_call @MoveToDevice(%z) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %a = stablehlo.abs %back : tensor<1024x1024xf32>
    return %n, %a, %e : tensor<65536x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}
