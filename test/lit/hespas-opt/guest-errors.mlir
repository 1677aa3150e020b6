// RUN: not hespas-opt %s --guest-fail 2>&1 | filecheck %s --check-prefix=KEY
// RUN: not hespas-opt %s --guest-fail=how=walk 2>&1 | filecheck %s --check-prefix=KEY
// RUN: not hespas-opt %s --guest-fail=how=lines 2>&1 | filecheck %s --check-prefix=LINES
// RUN: not hespas-opt %s --guest-fail=how=bindings 2>&1 | filecheck %s --check-prefix=BINDINGS
// RUN: not hespas-opt %s --guest-fail=how=file 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not hespas-opt %s --guest-fail=how=exit --mlir-print-ir-after-failure 2>&1 | filecheck %s --check-prefix=EXIT
// RUN: not hespas-opt %s --guest-fail=how=emit 2>&1 | filecheck %s --check-prefix=EMIT
// RUN: not hespas-opt %s --guest-undecorated 2>&1 | filecheck %s --check-prefix=UNDECORATED
// RUN: not hespas-opt %s --guest-unfinished 2>&1 | filecheck %s --check-prefix=UNFINISHED
// RUN: hespas-opt %s --guest-flat-annotate | filecheck %s --check-prefix=FLAT
// RUN: not hespas-opt %s --guest-flat-annotate=result=unknown 2>&1 | filecheck %s --check-prefix=RAISED
// RUN: not hespas-opt %s --guest-flat-annotate=result=endless 2>&1 | filecheck %s --check-prefix=ENDLESS
// RUN: not hespas-opt %s --guest-flat-annotate=result=negative 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not hespas-opt %s --guest-flat-annotate=result=text 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not hespas-opt %s --guest-flat-annotate=result=nothing 2>&1 | filecheck %s --check-prefix=NOTHING
// RUN: not hespas-opt %s --guest-grainy-annotate 2>&1 | filecheck %s --check-prefix=GRAINY
// RUN: not hespas-opt %s --guest-flat-annotate=result=huge 2>&1 | filecheck %s --check-prefix=HUGE
// RUN: not hespas-opt %s --guest-alias-annotate 2>&1 | filecheck %s --check-prefix=ALIAS
// RUN: not hespas-opt %s --guest-plain-annotate 2>&1 | filecheck %s --check-prefix=PLAIN
// RUN: not hespas-opt %s --guest-unknown-annotate 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: hespas-opt %s --guest-options=mode=slow,level=2 2>&1 | filecheck %s --check-prefix=OPTIONS
// RUN: not hespas-opt %s --guest-options=mode=quick 2>&1 | filecheck %s --check-prefix=WORD
// RUN: not hespas-opt %s --guest-options=level=3 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not hespas-opt %s --guest-options=level=2 2>&1 | filecheck %s --check-prefix=PAIR
// RUN: not hespas-opt %s --guest-options=folder=here 2>&1 | filecheck %s --check-prefix=FOLDER
// RUN: not hespas-opt %s --guest-options=sizes=3 2>&1 | filecheck %s --check-prefix=SIZES
// RUN: not hespas-opt %s --guest-unknown-type=size=3 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not hespas-opt %s --guest-keep-text 2>&1 | filecheck %s --check-prefix=KEEPS
// RUN: hespas-opt --list-passes | filecheck %s --check-prefix=LISTED
// RUN: hespas-opt --help | filecheck %s --check-prefix=HELP

/// Whatever a pass of a package raises is one line, with the line of its code.
// KEY-NOT: Traceback
// KEY: guest-errors.mlir: error: pass 'guest-fail' ({{.*}}guest_passes.py:{{[0-9]+}}) raised KeyError: '{{builtin.module|stablehlo.tanh}}'; report it to the authors of 'guest-fail'
// LINES: guest-errors.mlir: error: pass 'guest-fail' ({{.*}}guest_passes.py:{{[0-9]+}}) raised ValueError: first line; report
// BINDINGS: guest-errors.mlir: error: pass 'guest-fail' ({{.*}}guest_passes.py:{{[0-9]+}}) raised MLIRError: {{.+}}; report
// EMIT: guest-errors.mlir:[[# @LINE + 43]]:8: error: pass 'guest-fail' failed: tanh is slow
// EMIT-NOT: func.func
// EXIT: IR Dump After guest-fail{how=exit} Failed
// EXIT: error: pass 'guest-fail' ({{.*}}guest_passes.py:{{[0-9]+}}) raised SystemExit: 3; report it
// FILE: raised FileNotFoundError: [Errno 2] No such file or directory: 'no/such/file'; report

/// A class that would run without its options, or lacks a method, is refused; the list of passes says why.
// UNDECORATED: error: the pass guest_passes:UndecoratedPass has the option 'count', but is no dataclass; decorate it with @dataclass(frozen=True)
// UNFINISHED: error: the pass guest_passes:UnfinishedPass does not define apply; correct or uninstall its package
// GRAINY: error: the estimator guest_estimators:GrainyEstimator has the granularity 'grain', not one of op, kernel, region; correct or uninstall its package
// LISTED: --guest-undecorated (the pass guest_passes:UndecoratedPass has the option 'count', but is no dataclass)
// LISTED: --guest-unfinished (the pass guest_passes:UnfinishedPass does not define apply)

/// An estimator that is registered under another name would be estimated again as another one. A mistake in one
/// package takes neither the help nor the list of passes away.
// ALIAS: error: the estimator guest_estimators:FlatEstimator is named 'guest-flat', but its entry point 'guest-alias'; correct
// PLAIN: error: the estimator guest_estimators:PlainEstimator has a Config that is no dataclass and no pydantic model; correct
// TYPE: error: the estimator guest_estimators:UnknownEstimator has a Config with a type that cannot be read: NameError: name 'Size' is not defined
// HELP: --guest-alias-annotate
// HELP-NEXT: (the estimator guest_estimators:FlatEstimator is named 'guest-flat'
// HELP: --guest-unknown-annotate
// HELP-NEXT: (the estimator guest_estimators:UnknownEstimator has a Config

/// The value of an option has the type of its declaration, or is refused.
// OPTIONS: guest-options: OptionsPass(mode='slow', level=2, folder=PosixPath('.'), sizes=())
// WORD: error: guest-options: option 'mode' takes fast, slow, not 'quick'
// LEVEL: error: guest-options: option 'level' takes 1, 2, not '3'
// PAIR: error: guest-options: level 2 is for the mode slow
// FOLDER: error: guest-options: option 'folder' is declared as Path, which no text can set; declare it as str
// SIZES: error: guest-options: option 'sizes' is declared as tuple[int, ...], which no text can set
// UNKNOWN: error: the type of an option of the pass 'guest-unknown-type' ({{.*}}guest_passes.py:{{[0-9]+}}) raised NameError: name 'Size' is not defined; correct
// KEEPS: error: pass 'guest-keep-text' declares keeps as 'hespas.cost', not as a set of names; write keeps: ClassVar[frozenset[str]] = frozenset({...})

/// What an estimator of a package raises or returns is an error of the op that it was asked about.
// FLAT: hespas.cost = {digest = {{.*}}latency_ns = 4.000000e+00
// RAISED: guest-errors.mlir:[[# @LINE + 8]]:8: error: 'stablehlo.tanh': estimator 'guest-flat' ({{.*}}guest_estimators.py:{{[0-9]+}}) raised KeyError: 'unknown'; correct or uninstall its package
// ENDLESS: guest-errors.mlir:[[# @LINE + 7]]:8: error: 'stablehlo.tanh': estimator 'guest-flat' returned an invalid cost: latency_ns is inf, no finite number; correct
// NEGATIVE: guest-errors.mlir:[[# @LINE + 6]]:8: error: 'stablehlo.tanh': {{.*}} invalid cost: flops is -1, less than 0
// TEXT: guest-errors.mlir:[[# @LINE + 5]]:8: error: 'stablehlo.tanh': {{.*}} invalid cost: flops is 'many', not an i64
// NOTHING: guest-errors.mlir:[[# @LINE + 4]]:8: error: 'stablehlo.tanh': {{.*}} invalid cost: NoneType is no hespas.plugin.Cost
// HUGE: guest-errors.mlir:[[# @LINE + 3]]:8: error: 'stablehlo.tanh': {{.*}} invalid cost: latency_ns is more than an f64 holds

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
