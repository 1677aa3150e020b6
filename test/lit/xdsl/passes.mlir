// RUN: xdsl-opt %s --allow-unregistered-dialect -p "split-linear,roofline-annotate{node=A100_SXM_40GB},hespas-typed" | filecheck %s
// RUN: xdsl-opt %s --allow-unregistered-dialect -p "roofline-annotate{node=A100_SXM_40GB}" -t hespas | filecheck %s --check-prefix=PRETTY

// CHECK: hespas.split = #hespas.split<strategy = "linear"
// CHECK: "stablehlo.add"
// CHECK-SAME: hespas.cost = #hespas.cost<estimator = "roofline", flops = 4 : i64, read_bytes = 32 : i64, write_bytes = 16 : i64,
// CHECK-SAME: hespas.region = #hespas.region<id = 0 : i64,

// PRETTY: stablehlo.add %arg0, %arg0 {hespas.cost = {bound = "memory",
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
