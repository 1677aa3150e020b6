// RUN: hespas-opt %s --irdl-file=%S/Inputs/guest.irdl --guest-mark=op=guest.scale,attribute=guest.hot | filecheck %s
// RUN: not hespas-opt %s --irdl-file=%S/Inputs/guest.irdl --guest-mark=op=guest.scale,attribute=factor 2>&1 | filecheck %s --check-prefix=LEFT
// RUN: hespas-opt %s --irdl-file=%S/Inputs/guest.irdl --emit-bytecode -o %t.mlirbc
// RUN: not hespas-opt %t.mlirbc 2>&1 | filecheck %s --check-prefix=UNKNOWN

/// What a pass leaves is verified by the definitions of the file, too.

// CHECK: "guest.scale"(%{{.*}}) {factor = 2.{{.*}}, guest.hot}
// LEFT: irdl.mlir:13:8: error: pass 'guest-mark' left an invalid module: 'guest.scale': attribute factor: unit is no #builtin.float
// UNKNOWN: error: dialect 'guest' is unknown; lower the program from guest to StableHLO first
// UNKNOWN-SAME: --allow-unregistered-dialect
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "guest.scale"(%a) {factor = 2.0 : f32} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
