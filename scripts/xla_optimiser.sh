#!/bin/sh
# The published script of this name: optimise a program with XLA for a GPU that need not be there.
# xla-translate and hlo-opt are not needed, because jaxlib contains XLA; see hespas optimize.
set -eu

usage() {
    echo "usage: $0 -i PROGRAM -o OUTPUT -g GPU_TARGET_CONFIG.pbtxt [-d XLA_PASSES_TO_DISABLE]"
}

fail() {
    echo "error: $1" >&2
    usage >&2
    exit 2
}

input='' output='' gpu='' disable=async-collective-conversion
while [ "$#" -gt 0 ]; do
    case "$1" in
    -h | --help) usage && exit 0 ;;
    --docker) fail "--docker: there is no container image, because none is needed" ;;
    -i | -o | -g | -d) [ "$#" -gt 1 ] || fail "$1 needs a value" ;;
    *) fail "unknown argument '$1'" ;;
    esac
    case "$1" in
    -i) input=$2 ;;
    -o) output=$2 ;;
    -g) gpu=$2 ;;
    -d) disable=$2 ;;
    esac
    shift 2
done
[ -n "$input" ] || fail "-i PROGRAM is missing"
[ -n "$output" ] || fail "-o OUTPUT is missing"
[ -n "$gpu" ] || fail "-g GPU_TARGET_CONFIG.pbtxt is missing"

exec hespas optimize "$input" --target "$gpu" --disable "$disable" -o "$output"
