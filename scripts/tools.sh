#!/usr/bin/env bash
# Where the programs are that Sluice is built, shown and tested with. The one place that knows: setup.sh, the Makefile,
# the demo and the end-to-end tests all ask here.
#
#     scripts/tools.sh envoy           prints a path, or says on stderr what is missing and exits 1
#     source scripts/tools.sh          for the functions
#
# A variable (ENVOY_BIN, REDIS_SERVER_BIN, REDIS_CLI_BIN, WRK_BIN, CHROMIUM_BIN, HELM_BIN, PROMTOOL_BIN,
# WASM_BINDGEN_TEST_RUNNER) beats PATH, and PATH beats .tools/, where setup.sh puts what it had to fetch.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TOOLS=$ROOT/.tools
# The first Envoy that can replace a failed Wasm VM (failure_policy in envoy/envoy.yaml).
ENVOY_AT_LEAST=1.34
# Older ones crash in what wasm-bindgen's test runner has them run.
NODE_AT_LEAST=20

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# at_least WANTED FOUND: whether version FOUND is WANTED or newer.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# The version an Envoy says it has, or nothing.
envoy_version() {
    "$1" --version 2>/dev/null | sed -n 's#.*version: [^/]*/\([0-9][0-9.]*\).*#\1#p'
}

# The wasm-bindgen version of Cargo.lock: the test runner must have exactly this one.
wasm_bindgen_wanted() {
    awk '/^name = "wasm-bindgen"$/ { getline; gsub(/[^0-9.]/, ""); print }' "$ROOT/Cargo.lock"
}

# fits NAME PATH: whether the program found at PATH will do.
fits() {
    case $1 in
    envoy) at_least "$ENVOY_AT_LEAST" "$(envoy_version "$2")" ;;
    wasm-bindgen-test-runner) [ "$("$2" --version 2>/dev/null | awk '{ print $2 }')" = "$(wasm_bindgen_wanted)" ] ;;
    node) at_least "$NODE_AT_LEAST" "$("$2" --version 2>/dev/null | tr -d v)" ;;
    helm) [[ $("$2" version --short 2>/dev/null) == v3.* ]] ;;
    # It tells its version, and fails for want of an address.
    wrk) [[ $("$2" -v 2>&1) == wrk* ]] ;;
    chromium) "$2" --version 2>/dev/null | grep -qE '^(Chromium|Google Chrome) ' ;;
    redis-server) "$2" --version 2>/dev/null | grep -qE '^(Redis|Valkey) server' ;;
    *) "$2" --version >/dev/null 2>&1 ;;
    esac
}

# find_tool NAME: prints the path, or fails in silence. A variable that is set is taken at its word or refused aloud:
# quietly using another program than the one asked for would be worse than stopping.
find_tool() {
    local variable='' candidate
    case $1 in
    envoy) variable=ENVOY_BIN ;;
    redis-server) variable=REDIS_SERVER_BIN ;;
    redis-cli) variable=REDIS_CLI_BIN ;;
    wrk) variable=WRK_BIN ;;
    helm) variable=HELM_BIN ;;
    promtool) variable=PROMTOOL_BIN ;;
    chromium) variable=CHROMIUM_BIN ;;
    wasm-bindgen-test-runner) variable=WASM_BINDGEN_TEST_RUNNER ;;
    esac
    if [ -n "$variable" ] && [ -n "${!variable:-}" ]; then
        fits "$1" "${!variable}" || die "$variable is ${!variable}, and that is no $1 that Sluice can use"
        printf '%s\n' "${!variable}"
        return
    fi
    for candidate in "$(command -v "$1")" "$TOOLS/bin/$1"; do
        if [ -x "$candidate" ] && fits "$1" "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# need_tool NAME: as find_tool, but says what to do when there is none.
need_tool() {
    find_tool "$1" || die "no usable $1 was found; 'make setup' (or 'make bench', for wrk) gets it"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    [ $# = 1 ] || die 'usage: tools.sh NAME'
    need_tool "$1"
fi
