// RUN: hespas-opt %s '--annotate=estimator=guest-patient settings="keep-going=true"' | filecheck %s
// RUN: hespas-opt %s '--annotate=estimator=guest-patient settings="keep-going=true"' | hespas-opt --canonicalize --refresh-costs | filecheck %s
// RUN: not hespas-opt %s --guest-patient-annotate 2>&1 | filecheck %s --check-prefix=CLASH
// RUN: not hespas-opt %s '--annotate=estimator=guest-flat settings="result=provenance"' 2>&1 | filecheck %s --check-prefix=TYPE

/// An estimator of a package with a setting that is named like an option has no pass of its own: only this pass can set it,
/// and is the one to run again. Estimators may measure in their own way.

// CHECK: hespas.target = {{.*}}estimator = "guest-patient 1"{{.*}}pipeline = "annotate{estimator=guest-patient settings=keep-going=true}"
// CHECK: latency_ns = 4.000000e+00
// CLASH: error: estimator guest-patient: its setting 'keep-going' is also an option of its pass; rename the setting
// TYPE: error: estimator 'guest-flat' {{.*}}raised TypeError: describe_provenance returned int, not str
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
