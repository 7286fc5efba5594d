#!/usr/bin/env bash
# Builds graphlint.vsix. After `npm install` nothing is fetched: esbuild bundles the client, vsce packs it.
set -euo pipefail
cd "$(dirname "$0")"
[ -d node_modules ] || npm install --no-audit --no-fund
cp ../../LICENSE LICENSE.txt
npm run package
