// RUN: xdsl-opt %s --split-input-file --parsing-diagnostics -p hespas-dictionaries | filecheck %s

// CHECK: hespas.kernel = {kind = "gemm"}
builtin.module attributes {hespas.kernel = #hespas.kernel<kind = "gemm">} {}

// -----

// CHECK: hespas.kernel: kind is 'gem', not one of
builtin.module attributes {hespas.kernel = #hespas.kernel<kind = "gem">} {}
