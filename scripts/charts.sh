#!/usr/bin/env bash
# Checks the Helm chart: Helm's own look at it; what it makes of each file of values in charts/sluice/ci, against the
# schemas of its kinds (scripts/manifests.sh), and read by the sidecar and the filter; and whether, told as little as
# possible, it is what envoy/kubernetes is. No cluster is needed.
#
#     scripts/charts.sh
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"
CHART=charts/sluice

HELM=$(find_tool helm) || {
    echo 'left out: the chart: helm is not installed'
    exit
}
command -v npm >/dev/null || {
    echo 'left out: the chart: npm, which brings the schemas, is not installed'
    exit
}
RENDERED=$(mktemp -d)
trap 'rm -rf "$RENDERED"' EXIT

for values in "$CHART"/ci/*.yaml; do
    name=$(basename "$values" -values.yaml)
    "$HELM" lint --quiet --strict "$CHART" --values "$values"
    "$HELM" template sluice "$CHART" --namespace sluice --values "$values" >"$RENDERED/$name.yaml"
done
if "$HELM" template sluice "$CHART" >/dev/null 2>&1; then
    die "$CHART: without a policy it should be refused"
fi
scripts/manifests.sh "$RENDERED"

# The script needs what the check of schemas has installed.
cp scripts/manifests/chart.mjs "$TOOLS/manifests/"
for values in "$CHART"/ci/*.yaml; do
    name=$(basename "$values" -values.yaml)
    node "$TOOLS/manifests/chart.mjs" config "$RENDERED/$name.yaml" >"$RENDERED/sluice.yaml"
    plugins=()
    if grep -q '^kind: WasmPlugin' "$RENDERED/$name.yaml"; then plugins=(--filter "$RENDERED/$name.yaml"); fi
    cargo run --quiet -p sluice -- validate --config "$RENDERED/sluice.yaml" "${plugins[@]}" >/dev/null
done
node "$TOOLS/manifests/chart.mjs" same "$RENDERED/plain.yaml" envoy/kubernetes
echo "$CHART: as envoy/kubernetes, and what it renders can be read"
