// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-input-file --verify-diagnostics

/// A fusion is one kernel: another pass must not leave a collective in it.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<8xf32>):
    %1 = stablehlo.tanh %a : tensor<8xf32>
    // expected-error @+1 {{the op communicates, and runs in a fusion or another op, which is one kernel; move it out of the kernel}}
    %2 = "stablehlo.collective_permute"(%1) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<8xf32>
    mhlo.return %2 : tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// A collective in a branch of the fusion, and in a function that it calls.

func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
  %0 = "mhlo.fusion"(%x, %p) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<8xf32>, %q: tensor<i1>):
    // expected-warning @+1 {{runs a branch that data selects}}
    %1 = "stablehlo.if"(%q) ({
      // expected-error @+1 {{the op communicates, and runs in a fusion}}
      %2 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %2 : tensor<8xf32>
    }, {
      stablehlo.return %a : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    mhlo.return %1 : tensor<8xf32>
  }) : (tensor<8xf32>, tensor<i1>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func private @send(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{the op communicates, and runs in a fusion}}
  %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<8xf32>):
    %1 = func.call @send(%a) : (tensor<8xf32>) -> tensor<8xf32>
    mhlo.return %1 : tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// What a fusion reads of memory are its operands, once each.

func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<8xf32>):
    // expected-error @+1 {{the body of the fusion reads a value that is defined outside of it; hand it on as an operand of the fusion}}
    %1 = stablehlo.add %a, %y : tensor<8xf32>
    mhlo.return %1 : tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
