#!/usr/bin/env bash
# Checks every Kubernetes object in envoy/ against its kind's schema: unknown and missing fields, types, enumerations.
# The schemas come as TypeScript types, made from the schemas of Kubernetes and of the custom resources, and TypeScript's
# compiler refuses what they don't know. Neither a cluster nor its programs are needed; kustomize is tried if it is here.
#
#     scripts/manifests.sh [DIRECTORY]      envoy/ if none is given
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
WHERE=${1:-$ROOT/envoy}
TYPES=$TOOLS/manifests

if ! command -v npm >/dev/null; then
    echo 'left out: manifests against their schemas: npm is not installed'
    exit
fi
# Again when the versions have changed.
if ! cmp -s "$ROOT/scripts/manifests/package.json" "$TYPES/package.json" || [ ! -e "$TYPES/complete" ]; then
    rm -rf "$TYPES"
    mkdir -p "$TYPES"
    cp "$ROOT/scripts/manifests/package.json" "$TYPES/"
    npm install --prefix "$TYPES" --ignore-scripts --no-audit --no-fund --loglevel=error ||
        die "the schemas could not be fetched: 'npm install' must work"
    touch "$TYPES/complete"
fi
cp "$ROOT/scripts/manifests/check.mjs" "$TYPES/"
node "$TYPES/check.mjs" "$WHERE"

if kubectl kustomize --help >/dev/null 2>&1; then
    find "$WHERE" -name kustomization.yaml -printf '%h\n' | sort | while read -r directory; do
        kubectl kustomize "$directory" >/dev/null
        echo "$directory: kustomize builds it"
    done
else
    echo 'left out: kustomize: kubectl is not installed'
fi
