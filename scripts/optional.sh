#!/usr/bin/env bash
# Runs a check whose program not everybody has, and says so when it is left out.
#
#     scripts/optional.sh PROGRAM ARGUMENTS...
set -euo pipefail
if ! command -v "$1" >/dev/null; then
    echo "left out: $1 is not installed"
    exit
fi
echo "$*"
exec "$@"
