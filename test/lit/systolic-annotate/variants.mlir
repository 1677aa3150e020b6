// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15" | filecheck %s --check-prefix=PIPELINED
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e18 variant=scalesim" | filecheck %s --check-prefix=SCALESIM
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e18 variant=scalesim dataflow=os" | filecheck %s --check-prefix=OUTPUT
// RUN: hespas-opt %s --systolic-annotate="node=TPUv3_core arrays=1 memory-bandwidth=1e15 variant=cocossim" | filecheck %s --check-prefix=COCOSSIM
// RUN: hespas-opt %s --systolic-annotate="node=H100_80GB rows=128 columns=128 clock-hz=1e9 lanes=1024 sram-bytes=16777216 memory-bandwidth=1e15" | filecheck %s --check-prefix=OWN

/// The same product, 1024 x 1024 x 1024 on one array of 128 x 128: 65,918 cycles and 272 to wait;
/// 89,983 as SCALE-Sim has it (81,791 where results stay), and one to fetch and write; 147,456 and
/// 272 as COCOSSim.

// PIPELINED: latency_ns = 70414.893617
// SCALESIM: latency_ns = 95727.659574
// OUTPUT: latency_ns = 87012.765957
// COCOSSIM: latency_ns = 157157.446808
// OWN: constants = "H100_80GB: 1 core with 1 array of 128 x 128 at 1 GHz, 1e+06 GB/s, ws, pipelined"
// OWN: latency_ns = 65918.0{{.*}}
module {
  func.func public @main(%x: tensor<1024x1024xbf16>, %w: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    return %0 : tensor<1024x1024xbf16>
  }
}
