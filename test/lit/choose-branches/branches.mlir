// RUN: hespas-opt %s --choose-branches --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --choose-branches --choose-branches --split-input-file 2>&1 | filecheck %s

// CHECK-NOT: {{note|date}}

/// Which branch runs is known at run time only: the one that sends most bytes is assumed, whatever work there is.

// CHECK-LABEL: module @sends
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @sends attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      %t2 = stablehlo.tanh %t1 : tensor<256xf32>
      stablehlo.return %t2 : tensor<256xf32>
    }, {
      %s = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> {hespas.comm = {pairs = array<i64: 0, 1>}} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %s : tensor<256xf32>
    }, {
      stablehlo.return %x : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// A collective of a device with itself sends nothing, and neither does one without hespas.comm.

// CHECK-LABEL: module @silent
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @silent attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %s = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> {hespas.comm = {}} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %s : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }, {
      %s = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %s : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// What a custom call sends that is a collective because hespas.comm says so.

// CHECK-LABEL: module @stated_comm
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @stated_comm attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }, {
      %k = stablehlo.custom_call @acme(%x) {hespas.comm = {groups = array<i64: 1>, kind = "all_reduce", operand_bytes = 1024 : i64, result_bytes = 1024 : i64}} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %k : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// Of branches that send equally much, the one with most work; of equal ones the first. An if has its true branch first.

// CHECK-LABEL: module @works
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @works {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// Operations are work, too: a product of 27.8 MB with its operations, 100 for a byte, against four sums of 6.3 MB.

// CHECK-LABEL: module @operations
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @operations {
  func.func @main(%p: tensor<i1>, %x: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
    %0 = "stablehlo.if"(%p) ({
      %t0 = stablehlo.add %x, %x : tensor<1024x1024xbf16>
      %t1 = stablehlo.add %t0, %x : tensor<1024x1024xbf16>
      %t2 = stablehlo.add %t1, %x : tensor<1024x1024xbf16>
      %t3 = stablehlo.add %t2, %x : tensor<1024x1024xbf16>
      stablehlo.return %t3 : tensor<1024x1024xbf16>
    }, {
      %t0 = stablehlo.dot %x, %x : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
      stablehlo.return %t0 : tensor<1024x1024xbf16>
    }) : (tensor<i1>) -> tensor<1024x1024xbf16>
    return %0 : tensor<1024x1024xbf16>
  }
}

// -----

// CHECK-LABEL: module @if
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @if {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.if"(%p) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }) : (tensor<i1>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// A loop counts once for each trip, and once if nobody knows.

// CHECK-LABEL: module @trips
// CHECK: }) {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} :
module @trips {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %r:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<256xf32> attributes {hespas.trips = 3 : i64}
      cond {
        stablehlo.return %q : tensor<i1>
      } do {
        %t = stablehlo.tanh %v : tensor<256xf32>
        stablehlo.return %q, %t : tensor<i1>, tensor<256xf32>
      }
      stablehlo.return %r#1 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @no_trips
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @no_trips {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %r:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<256xf32>
      cond {
        stablehlo.return %q : tensor<i1>
      } do {
        %t = stablehlo.tanh %v : tensor<256xf32>
        stablehlo.return %q, %t : tensor<i1>, tensor<256xf32>
      }
      stablehlo.return %r#1 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @unknown_trips
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @unknown_trips {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }, {
      %r:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<256xf32>
      cond {
        stablehlo.return %q : tensor<i1>
      } do {
        %t = stablehlo.tanh %v : tensor<256xf32>
        %u = stablehlo.tanh %t : tensor<256xf32>
        stablehlo.return %q, %u : tensor<i1>, tensor<256xf32>
      }
      stablehlo.return %r#1 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @never
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @never {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %r:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<256xf32> attributes {hespas.trips = 0 : i64}
      cond {
        stablehlo.return %q : tensor<i1>
      } do {
        %t = stablehlo.tanh %v : tensor<256xf32>
        stablehlo.return %q, %t : tensor<i1>, tensor<256xf32>
      }
      stablehlo.return %r#1 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// Sent bytes count in loops too, and what the condition of a loop does.

// CHECK-LABEL: module @sent_in_loop
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @sent_in_loop attributes {hespas.communicators = {"1" = array<i64: 0, 1>}, mhlo.num_partitions = 2 : i32} {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %s = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> {hespas.comm = {pairs = array<i64: 0, 1>}} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %s : tensor<256xf32>
    }, {
      %r:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<256xf32> attributes {hespas.trips = 3 : i64}
      cond {
        stablehlo.return %q : tensor<i1>
      } do {
        %t = "stablehlo.collective_permute"(%v) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> {hespas.comm = {pairs = array<i64: 0, 1>}} : (tensor<256xf32>) -> tensor<256xf32>
        stablehlo.return %q, %t : tensor<i1>, tensor<256xf32>
      }
      stablehlo.return %r#1 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @condition
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @condition {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }, {
      %r:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<256xf32> attributes {hespas.trips = 3 : i64}
      cond {
        %t = stablehlo.tanh %v : tensor<256xf32>
        stablehlo.return %q : tensor<i1>
      } do {
        stablehlo.return %q, %v : tensor<i1>, tensor<256xf32>
      }
      stablehlo.return %r#1 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// A call weighs as what it calls, and so does a composite.

// CHECK-LABEL: module @calls
// CHECK: }) {hespas.branch = 2 : i64, hespas.branch_found = 2 : i64} :
module @calls {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }, {
      %t = func.call @f(%x) : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %t : tensor<256xf32>
    }, {
      %t = stablehlo.composite "a.f" %x {decomposition = @g} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %t : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
  func.func private @f(%x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = stablehlo.tanh %x : tensor<256xf32>
    %1 = stablehlo.tanh %0 : tensor<256xf32>
    return %1 : tensor<256xf32>
  }
  func.func private @g(%x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = call @f(%x) : (tensor<256xf32>) -> tensor<256xf32>
    %1 = call @f(%0) : (tensor<256xf32>) -> tensor<256xf32>
    return %1 : tensor<256xf32>
  }
}

// -----

/// A nested choice weighs as the branch that it takes, also if somebody has stated that one.

// CHECK-LABEL: module @nested
// CHECK: }) {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} :
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @nested {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }, {
      %n = "stablehlo.if"(%p) ({
        %t0 = stablehlo.tanh %x : tensor<256xf32>
        %t1 = stablehlo.tanh %t0 : tensor<256xf32>
        %t2 = stablehlo.tanh %t1 : tensor<256xf32>
        stablehlo.return %t2 : tensor<256xf32>
      }, {
        stablehlo.return %x : tensor<256xf32>
      }) : (tensor<i1>) -> tensor<256xf32>
      stablehlo.return %n : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @nested_stated
// CHECK: }) {hespas.branch = 1 : i64} :
// CHECK: }) {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} :
module @nested_stated {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }, {
      %n = "stablehlo.if"(%p) ({
        %t0 = stablehlo.tanh %x : tensor<256xf32>
        %t1 = stablehlo.tanh %t0 : tensor<256xf32>
        %t2 = stablehlo.tanh %t1 : tensor<256xf32>
        stablehlo.return %t2 : tensor<256xf32>
      }, {
        stablehlo.return %x : tensor<256xf32>
      }) {hespas.branch = 1 : i64} : (tensor<i1>) -> tensor<256xf32>
      stablehlo.return %n : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// Operations count as bytes, 100 for each: the product moves 49,152 bytes and has 524,288 operations, as much as 54,395 bytes; negations move 51,200 and 56,320 bytes.

// CHECK-LABEL: module @flops
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @flops {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %a = stablehlo.constant dense<1.0> : tensor<64x100xf32>
      %b = stablehlo.negate %a : tensor<64x100xf32>
      stablehlo.return %x : tensor<256xf32>
    }, {
      %a = stablehlo.constant dense<1.0> : tensor<64x64xf32>
      %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %x : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @fewer_flops
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @fewer_flops {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %a = stablehlo.constant dense<1.0> : tensor<64x64xf32>
      %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %x : tensor<256xf32>
    }, {
      %a = stablehlo.constant dense<1.0> : tensor<64x110xf32>
      %b = stablehlo.negate %a : tensor<64x110xf32>
      stablehlo.return %x : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @transcendentals
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @transcendentals {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %a = stablehlo.reverse %x, dims = [0] : tensor<256xf32>
      stablehlo.return %a : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// Bytes are those read and those written: a sum reads 32,768 bytes, and the numbers of 9,000 elements write 36,000.

// CHECK-LABEL: module @written
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @written {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %a = stablehlo.constant dense<1.0> : tensor<8192xf32>
      %z = stablehlo.constant dense<1.0> : tensor<f32>
      %b = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8192xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %x : tensor<256xf32>
    }, {
      %a = stablehlo.iota dim = 0 : tensor<9000xf32>
      stablehlo.return %x : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @read
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @read {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %a = stablehlo.iota dim = 0 : tensor<7000xf32>
      stablehlo.return %x : tensor<256xf32>
    }, {
      %a = stablehlo.constant dense<1.0> : tensor<8192xf32>
      %z = stablehlo.constant dense<1.0> : tensor<f32>
      %b = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8192xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %x : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// What nobody knows weighs nothing.

// CHECK-LABEL: module @unknown
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @unknown {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      %k = stablehlo.custom_call @kernel(%x) : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %k : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// A statement of somebody holds, and is not marked as found.

// CHECK-LABEL: module @stated
// CHECK: }) {hespas.branch = 0 : i64} :
module @stated {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) {hespas.branch = 0 : i64} : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @beside
// CHECK: }) {hespas.branch = 0 : i64, hespas.branch_found = 1 : i64} :
module @beside {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      %t1 = stablehlo.tanh %t0 : tensor<256xf32>
      stablehlo.return %t1 : tensor<256xf32>
    }) {hespas.branch = 0 : i64, hespas.branch_found = 1 : i64} : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// What was found before is none.

// CHECK-LABEL: module @found
// CHECK: }) {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} :
module @found {
  func.func @main(%i: tensor<i32>, %p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      %t0 = stablehlo.tanh %x : tensor<256xf32>
      stablehlo.return %t0 : tensor<256xf32>
    }) {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} : (tensor<i32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}
