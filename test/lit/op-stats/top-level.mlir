// RUN: hespas-opt %s --op-stats=output=- --disable-output | filecheck %s
// RUN: hespas-opt %s --op-stats=expand,output=- --disable-output | filecheck %s --check-prefix=EXPAND
// RUN: hespas-opt %s --op-stats="input-sensitive format=csv output=-" --disable-output | filecheck %s --check-prefix=CSV
// RUN: hespas-opt %s --op-stats="input-sensitive format=json output=-" --disable-output | filecheck %s --check-prefix=JSON

/// The entry function counts as it stands: a call is one op.
// CHECK: Unique Operators              : 3
// CHECK: func.call.....................:     2
// CHECK: func.return...................:     1
// CHECK: stablehlo.tanh................:     1
// CHECK: Total Operators...............:     4

/// Expanded, a call is what it calls, each time.
// EXPAND: Unique Operators              : 3
// EXPAND: func.return...................:     3
// EXPAND: stablehlo.add.................:     2
// EXPAND: stablehlo.tanh................:     1
// EXPAND: Total Operators...............:     6

// CSV: op,count
// CSV: func.call(tensor<4xf32>),2
// CSV: stablehlo.tanh(tensor<4xf32>),1

// JSON: "function": "main",
// JSON: "expanded": false,
// JSON: "total": 4,
// JSON: "unique": 3,
// JSON: "ops": [
// JSON: "op": "func.call",
// JSON-NEXT: "count": 2,
// JSON-NEXT: "operands": [
// JSON-NEXT: "tensor<4xf32>"

func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @twice(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @twice(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.tanh %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
