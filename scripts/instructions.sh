#!/usr/bin/env bash
# Counts the instructions of what runs per request, with callgrind, and compares them with bench/instructions.txt: the
# one figure of speed that a busy machine doesn't change.
#
#     scripts/instructions.sh check      fails if a case takes noticeably more, or less, than is on record
#     scripts/instructions.sh update     puts the counts of today on record
set -euo pipefail
# A case that goes wrong must not count as none.
shopt -s inherit_errexit
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"

RECORD=bench/instructions.txt
# The C library chooses its copying functions by processor, and a hash table its places by chance.
TOLERANCE_PERCENT=3
# What one more run costs is the difference between so many and so many.
FEW=50
MANY=150
PROGRAM=${CARGO_TARGET_DIR:-target}/release/instructions

case ${1:-} in check | update) ;; *) die 'usage: instructions.sh check|update' ;; esac
if ! command -v valgrind >/dev/null; then
    [ "$1" = check ] || die 'valgrind is missing: install it (on Debian and Ubuntu: apt-get install valgrind)'
    echo 'left out: valgrind is not installed'
    exit
fi
cargo build --release --quiet -p sluice --features instructions --bin instructions

# total CASE COUNT: the instructions of the whole program.
total() {
    local said
    said=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$PROGRAM" "$1" "$2" 2>&1) ||
        die "$1 went wrong: $said"
    sed -n 's/^==[0-9]*== Collected : \([0-9]*\)$/\1/p' <<<"$said"
}

COUNTS=$(
    "$PROGRAM" | while read -r name requests; do
        few=$(total "$name" "$FEW")
        many=$(total "$name" "$MANY")
        echo "$name $(((many - few) / ((MANY - FEW) * requests)))"
    done
)
if [ "$1" = update ]; then
    {
        echo '# Instructions per request, natively. Written by: scripts/instructions.sh update'
        echo "$COUNTS"
    } >"$RECORD"
    cat "$RECORD"
    exit
fi

awk -v tolerance="$TOLERANCE_PERCENT" '
    /^#/ { next }
    NR == FNR { record[$1] = $2; next }
    {
        known = $1 in record
        change = known ? 100 * ($2 - record[$1]) / record[$1] : 0
        state = !known ? "not on record" : change > tolerance ? "MORE" : change < -tolerance ? "LESS" : "ok"
        printf "%-34s %8d  %8s  %+6.1f %%  %s\n", $1, $2, known ? record[$1] : "-", change, state
        bad += state != "ok"
        delete record[$1]
    }
    END {
        for (name in record) { printf "%-34s is on record, and is no case\n", name; bad++ }
        exit bad > 0
    }
' "$RECORD" - <<<"$COUNTS" ||
    die "not what is on record. If that is meant, say why in the commit that runs 'scripts/instructions.sh update'"
