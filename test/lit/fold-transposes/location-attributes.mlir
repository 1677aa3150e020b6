// RUN: hespas-opt %s --fold-transposes | filecheck %s

/// A location that another tool has stated in an attribute, which the bindings cannot represent, stays behind with the op that is replaced;
/// other attributes are kept.
// CHECK: stablehlo.dot_general %arg0, %arg0, contracting_dims = [0] x [0] {guest.name = "p"} :
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] {guest.name = "p", guest.origin = loc("p")}
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
