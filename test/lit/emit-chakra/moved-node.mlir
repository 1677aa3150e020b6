// RUN: rm -rf %t && mkdir -p %t && printf '{"name": "mine", "vendor": "me", "description": "d", "peaks_flops": {"vector": {"f32": 1e12}}, "memory_bandwidth_bytes_per_s": 1e12, "sources": {"peaks_flops.vector.f32": "s", "memory_bandwidth_bytes_per_s": "s"}}' > %t/mine.json
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=%t/mine.json -o %t/annotated.mlir
// RUN: hespas-opt %t/annotated.mlir --emit-chakra=output=%t/traces --disable-output
// RUN: filecheck %s --input-file %t/traces/module_stats.json
// RUN: rm %t/mine.json
// RUN: hespas-opt %t/annotated.mlir --emit-chakra=output=%t/traces --disable-output
// RUN: filecheck %s --check-prefix=GONE --input-file %t/traces/module_stats.json

/// The file of the node of the costs may be gone: then shares of its peak rates are not known, and the rest is.

// CHECK: "time_ns": 8.192
// CHECK: "utilisation": {"flops": 0.125, "bandwidth": 1.0}
// GONE: "time_ns": 8.192
// GONE: "utilisation": null
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.negate %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
