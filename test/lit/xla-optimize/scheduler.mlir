// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,stage=scheduled,async-collectives=keep | filecheck %s --check-prefix=HIDES
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,stage=scheduled,async-collectives=remove | filecheck %s --check-prefix=SERIAL
// RUN: hespas-opt %s --xla-optimize=target=A100_SXM_40GB,stage=scheduled,async-collectives=keep | filecheck %s --check-prefix=ORDER
// RUN: hespas-opt %s "--xla-optimize=target=A100_SXM_40GB,stage=scheduled,async-collectives=keep,flags=--xla_gpu_enable_latency_hiding_scheduler=true" | filecheck %s --check-prefix=HIDES
// RUN: hespas-opt %s --xla-optimize=target=A100_SXM_40GB,stage=scheduled,async-collectives=hide | filecheck %s --check-prefix=HIDES
// RUN: hespas-opt %s "--xla-optimize=target=H100_80GB,stage=scheduled,async-collectives=keep,flags=--xla_gpu_enable_latency_hiding_scheduler=false" 2>&1 | filecheck %s --check-prefix=IGNORED
// REQUIRES: gpu-compiler

/// The program records which scheduler of XLA made its order. From Hopper on it is the one that
/// hides latencies, whatever its flag says (XLA of jax 0.10, which is warned of; that of 0.12 obeys);
/// without it, XLA orders for the least memory.

// HIDES: scheduler = "latency-hiding"
// SERIAL: scheduler = "memory"
// SERIAL-NOT: async_start
// ORDER: scheduler = "memory"
// IGNORED: {{warning: the flag xla_gpu_enable_latency_hiding_scheduler=false has no effect|scheduler = "memory"}}
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%x: tensor<1024x1024xbf16>, %a: tensor<64x128xbf16>) -> (tensor<1024x1024xbf16>, tensor<256x128xbf16>) {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<64x128xbf16>) -> tensor<256x128xbf16>
    %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    return %1, %0 : tensor<1024x1024xbf16>, tensor<256x128xbf16>
  }
}
