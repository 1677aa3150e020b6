// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB | hespas-opt --prepare=replicas=64 --refresh-costs 2>&1 | filecheck %s

/// The time of the slowest device is that of the new number of devices.

// CHECK: hespas.target = {constants = "{{.*}}slowest of 64 devices
// CHECK: slowest_device =
func.func @main(%a: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = stablehlo.dot %a, %a : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %0 : tensor<8192x8192xbf16>
}
