#!/usr/bin/env bash
# The step of action.yml. All inputs come through the environment, so that none of them can be read as shell code.
set -euo pipefail

venv="${RUNNER_TEMP:-$(mktemp -d)}/graphlint-venv"
python3 -m venv "$venv"
if [ -n "${GRAPHLINT_VERSION:-}" ]; then
  "$venv/bin/pip" install --quiet "torch-graphlint==$GRAPHLINT_VERSION"
else
  "$venv/bin/pip" install --quiet "$GRAPHLINT_ACTION"
fi

args=()
paths=()
while IFS= read -r line; do [ -n "$line" ] && args+=("$line"); done <<<"${GRAPHLINT_ARGS:-}"
while IFS= read -r line; do [ -n "$line" ] && paths+=("$line"); done <<<"${GRAPHLINT_PATHS:-.}"
case "${GRAPHLINT_FAIL_ON:-warning}" in
  error | warning) args+=(--fail-on "$GRAPHLINT_FAIL_ON") ;;
  never) args+=(--exit-zero) ;;
  *)
    echo "graphlint: fail-on must be error, warning or never" >&2
    exit 2
    ;;
esac
[ -n "${GRAPHLINT_TORCH:-}" ] && args+=(--torch-version "$GRAPHLINT_TORCH")
[ -n "${GRAPHLINT_BASELINE:-}" ] && args+=(--baseline "$GRAPHLINT_BASELINE")
[ -n "${GRAPHLINT_SARIF:-}" ] && args+=(--report "sarif=$GRAPHLINT_SARIF")

# An environment of the project that is set up already is what the linter reads packages from; its own is not.
status=0
"$venv/bin/graphlint" check --output-format github "${args[@]}" -- "${paths[@]:-.}" || status=$?
[ -n "${GITHUB_OUTPUT:-}" ] && echo "exit-status=$status" >>"$GITHUB_OUTPUT"
exit "$status"
