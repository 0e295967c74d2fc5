#!/usr/bin/env bash
# Checks the alerts, and tries each out on series that it is for, with Prometheus's own tool.
#
#     scripts/alerts.sh
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"
PROMTOOL=$(find_tool promtool) || {
    echo 'left out: alerts: promtool is not installed'
    exit
}
"$PROMTOOL" check rules charts/sluice/alerts.yaml >/dev/null
"$PROMTOOL" test rules tests/alerts.yaml >/dev/null
echo 'charts/sluice/alerts.yaml: each alert comes, and none without a cause'
