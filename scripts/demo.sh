#!/usr/bin/env bash
# Sluice at work: Redis, one sidecar and two Envoys on free ports of this machine. Everything shown is checked, and
# everything started is stopped.
#
#     scripts/demo.sh        shows it and ends; 0 if all was as told
#     scripts/demo.sh up     keeps it running until Ctrl-C
#
# `make demo` and `make up` build first.
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"

TARGET=${CARGO_TARGET_DIR:-target}
SLUICE=$TARGET/debug/sluice
WORK=$(mktemp -d)
PIDS=()
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

stop() {
    local status=$? pid
    trap - EXIT INT TERM
    for pid in "${PIDS[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${PIDS[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$WORK"
    exit "$status"
}

# failed NAME SENTENCE: the end, with the last of that program's log.
failed() {
    printf '\n%s\n' "$2" >&2
    [ ! -f "$WORK/$1.log" ] || tail -n 20 "$WORK/$1.log" >&2
    exit 1
}

# Ports below the range that outgoing connections take theirs from.
NEXT_PORT=$((20000 + $$ % 10000))
free_port() {
    while (exec 3<>"/dev/tcp/127.0.0.1/$NEXT_PORT") 2>/dev/null; do NEXT_PORT=$((NEXT_PORT + 1)); done
    PORT=$NEXT_PORT
    NEXT_PORT=$((NEXT_PORT + 1))
}

# start NAME READY COMMAND...: runs it and waits until the command READY succeeds.
start() {
    local name=$1 ready=$2 deadline=$((SECONDS + 30))
    shift 2
    # A process group of its own: Ctrl-C is for this script, which then stops things in its own way.
    set -m
    "$@" >"$WORK/$name.log" 2>&1 </dev/null &
    set +m
    PIDS+=($!)
    until $ready; do
        kill -0 $! 2>/dev/null || failed "$name" "$name ended instead of starting:"
        [ "$SECONDS" -lt "$deadline" ] || failed "$name" "$name is not ready after 30 seconds:"
        sleep 0.05
    done
}

redis() { "$REDIS_CLI" -p "$REDIS_PORT" "$@"; }
redis_ready() { [ "$(redis ping 2>/dev/null)" = PONG ]; }
sidecar_ready() { [[ $(curl -fsS "127.0.0.1:$SIDECAR_PORT/readyz" 2>/dev/null) == *'"state":"up"'* ]]; }
envoy_ready() { curl -fsS "127.0.0.1:$ADMIN_PORT/ready" >/dev/null 2>&1; }

# filled FILE: the file with its ports in place.
filled() {
    sed -e "s/@REDIS_PORT@/$REDIS_PORT/" -e "s/@SIDECAR_PORT@/$SIDECAR_PORT/" \
        -e "s/@SIDECAR_ADMIN_PORT@/${SIDECAR_ADMIN_PORT:-}/" \
        -e "s/@ENVOY_PORT@/${ENVOY_PORT:-}/" -e "s/@ADMIN_PORT@/${ADMIN_PORT:-}/" \
        -e "s#filename: target/#filename: $TARGET/#" "$1"
}

start_all() {
    local envoy redis_server number
    REDIS_CLI=$(need_tool redis-cli)
    redis_server=$(need_tool redis-server)
    envoy=$(need_tool envoy)
    [ -x "$SLUICE" ] || die "$SLUICE is not built; 'make demo' builds it"

    free_port; REDIS_PORT=$PORT
    start redis redis_ready "$redis_server" --bind 127.0.0.1 --port "$REDIS_PORT" --save '' --dir "$WORK"

    free_port; SIDECAR_PORT=$PORT
    free_port; SIDECAR_ADMIN_PORT=$PORT
    filled envoy/demo/sluice.yaml >"$WORK/sluice.yaml"
    start sluice sidecar_ready "$SLUICE" serve --config "$WORK/sluice.yaml"

    ENVOY_PORTS=()
    for number in 1 2; do
        free_port; ENVOY_PORT=$PORT
        free_port; ADMIN_PORT=$PORT
        ENVOY_PORTS+=("$ENVOY_PORT")
        filled envoy/demo/envoy.yaml >"$WORK/envoy-$number.yaml"
        start "envoy-$number" envoy_ready "$envoy" --config-path "$WORK/envoy-$number.yaml" --concurrency 2 \
            --disable-hot-restart --log-level warn
    done
    A=127.0.0.1:${ENVOY_PORTS[0]}
    B=127.0.0.1:${ENVOY_PORTS[1]}
}

# ask URL HEADER: one request. Sets STATUS, HEADERS and BODY.
ask() {
    STATUS=$(curl -sS -o "$WORK/body" -D "$WORK/headers" -w '%{http_code}' -H "$2" "$1")
    HEADERS=$(tr -d '\r' <"$WORK/headers")
    BODY=$(cat "$WORK/body")
}

# header NAME: that header of the last answer.
header() { sed -n "s/^$1: //Ip" <<<"$HEADERS"; }

# must SENTENCE COMMAND...: the end, unless the command succeeds.
must() {
    local sentence=$1
    shift
    "$@" && return
    printf 'last answer: %s\n%s\n%s\n' "$STATUS" "$HEADERS" "$BODY" >&2
    failed sluice "NOT as told: $sentence"
}

# check SENTENCE COMMAND...: the same, and says so.
check() {
    must "$@"
    printf '   ok: %s\n' "$1"
}

same() { [ "$1" = "$2" ]; }
between() { [ "$1" -le "$2" ] && [ "$2" -le "$3" ]; }
has() { [[ $2 == *"$1"* ]]; }

show() {
    local statuses='' number
    printf 'Redis :%s, sidecar :%s, Envoy A :%s, Envoy B :%s\n' "$REDIS_PORT" "$SIDECAR_PORT" "${ENVOY_PORTS[@]}"

    printf '\n1. Five requests a minute for each tenant. Tenant acme asks Envoy A three times.\n'
    for number in 4 3 2; do
        ask "$A/api/" 'x-tenant-id: acme'
        printf '   %s  RateLimit: %s  RateLimit-Policy: %s\n' "$STATUS" "$(header ratelimit)" "$(header ratelimit-policy)"
        must 'allowed' same "$STATUS" 200
        must "$number left" has "\"per-tenant\";r=$number;" "$(header ratelimit)"
    done
    check 'allowed, and told what is left' same "$(header ratelimit-policy)" '"per-tenant";q=5;w=60'

    printf '\n2. Then Envoy B, five times: the limit is one, however many Envoys there are.\n'
    for number in 1 2 3 4 5; do
        ask "$B/api/" 'x-tenant-id: acme'
        statuses+="$STATUS "
    done
    printf '   %s\n' "$statuses"
    check 'two were left, not five' same "$statuses" '200 200 429 429 429 '

    printf '\n3. What a denied client sees.\n'
    printf '   %s  Retry-After: %s  RateLimit: %s\n' "$STATUS" "$(header retry-after)" "$(header ratelimit)"
    printf '   Content-Type: %s  X-Envoy-RateLimited: %s\n' "$(header content-type)" "$(header x-envoy-ratelimited)"
    printf '%s\n' "$BODY" | fold -s -w 110 | sed 's/^/   /'
    check 'Retry-After lies in this minute' between 1 "$(header retry-after)" 60
    check 'the body is a problem that names the policy' has '"violated-policies":["per-tenant"]' "$BODY"

    printf '\n4. Another tenant.\n'
    ask "$B/api/" 'x-tenant-id: globex'
    printf '   %s  RateLimit: %s\n' "$STATUS" "$(header ratelimit)"
    check 'globex pays nothing for acme' has '"per-tenant";r=4;' "$(header ratelimit)"

    printf '\n5. Two limits on one request: one report per user, ten for all. Alice asks for twenty.\n'
    statuses=''
    for number in {1..10}; do
        ask "$A/reports/" 'x-user: alice'
        statuses+="$STATUS "
        ask "$B/reports/" 'x-user: alice'
        statuses+="$STATUS "
    done
    check 'one was allowed, nineteen were denied' same "$statuses" "200 $(printf '429 %.0s' {1..19})"
    ask "127.0.0.1:$SIDECAR_PORT/v1/check/all-users/reports" 'accept: */*'
    printf '   all-users: RateLimit: %s\n' "$(header ratelimit)"
    check 'the denied ones took nothing from what all users share' has '"all-users";r=9;' "$(header ratelimit)"

    printf '\n6. In Redis: one key per policy and key, and each is going to disappear.\n'
    local key ttl keys=0
    for key in $(redis --scan | sort); do
        ttl=$(redis pttl "$key")
        printf '   %s  (%s ms to live)\n' "$key" "$ttl"
        must "$key has a TTL" between 1 "$ttl" 120000
        keys=$((keys + 1))
    done
    check 'four keys: acme, globex, alice and the reports of all' same "$keys" 4
}

wait_for_ctrl_c() {
    cat <<EOF

Running until Ctrl-C. Logs are in $WORK.

Envoy A   http://$A     Envoy B   http://$B
Sidecar   http://127.0.0.1:$SIDECAR_PORT     Redis     127.0.0.1:$REDIS_PORT
Its page  http://127.0.0.1:$SIDECAR_ADMIN_PORT/    # what it decides, hot and denied keys, what is wrong

  curl -i -H 'x-tenant-id: acme' http://$A/api/                 # 5 a minute per tenant, on both Envoys together
  curl -i -H 'x-user: alice' http://$B/reports/                 # 1 per user and 10 for all, a minute
  curl -i http://127.0.0.1:$SIDECAR_PORT/v1/check/per-tenant/acme          # what acme has left
  curl -i -X POST http://127.0.0.1:$SIDECAR_PORT/v1/check/per-tenant/acme  # a check without Envoy
  curl -s http://127.0.0.1:$SIDECAR_ADMIN_PORT/metrics                      # what the sidecar has counted
  $SLUICE top --admin http://127.0.0.1:$SIDECAR_ADMIN_PORT                  # its hottest and most denied keys
  $SLUICE reset per-tenant acme --admin http://127.0.0.1:$SIDECAR_ADMIN_PORT
  $REDIS_CLI -p $REDIS_PORT --scan
EOF
    # Returns when something ends by itself, which nothing should.
    wait -n || true
    failed sluice 'Something ended by itself; the sidecar says:'
}

case ${1:-} in
'')
    start_all
    show
    printf "\nAll as told. Everything is stopped again; 'make up' keeps it running.\n"
    ;;
up)
    start_all
    wait_for_ctrl_c
    ;;
*) die 'usage: demo.sh [up]' ;;
esac
