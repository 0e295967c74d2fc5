#!/usr/bin/env bash
# Builds both images here, without a registry: the programs with this machine's cargo, and from the Containerfiles only
# the stage that has no base image.
#
#     scripts/images.sh        sluice:latest and sluice-plugin:latest, in buildah's store; says how large they are
set -euo pipefail
# shellcheck source=scripts/tools.sh
source "$(dirname "$0")/tools.sh"
cd "$ROOT"
OUTPUT=${CARGO_TARGET_DIR:-target}
TARGET=x86_64-unknown-linux-musl
# Neither namespaces of users nor an overlay file system: both are missing in many containers, and nothing is run here.
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs

command -v buildah >/dev/null || die 'buildah is missing: install it (on Debian and Ubuntu: apt-get install buildah)'
command -v musl-gcc >/dev/null ||
    die 'musl-gcc is missing: install it (on Debian and Ubuntu: apt-get install musl-tools)'
[ -d "$(rustc --print target-libdir --target $TARGET)" ] || rustup target add $TARGET

cargo build --release --locked -p sluice --target $TARGET
cargo build --release --locked -p sluice-filter --target wasm32-wasip1

# The last stage of a Containerfile, with what it takes from the first one lying in the context instead.
CONTEXT=$(mktemp -d)
trap 'rm -rf "$CONTEXT"' EXIT
cp "$OUTPUT/$TARGET/release/sluice" "$CONTEXT/sluice"
cp /etc/ssl/certs/ca-certificates.crt "$CONTEXT/ca-certificates.crt"
awk '/^FROM scratch/ { last = 1 } last' Containerfile | sed 's/ --from=build / /' >"$CONTEXT/Containerfile"
# In Docker's format, which alone has HEALTHCHECK.
buildah build --quiet --format docker -t sluice "$CONTEXT" >/dev/null
buildah build --quiet --format oci -f Containerfile.plugin -t sluice-plugin "$OUTPUT/wasm32-wasip1/release" >/dev/null
buildah images --format '{{.Name}}:{{.Tag}} {{.Size}}' | grep sluice
