#!/usr/bin/env bash
# Runs Python's MCP client against `tmux-task mcp`.
#
#   tests/mcp/run.sh PROGRAM
#
# The client (the package mcp) is installed into a virtual environment in target/. If
# that fails, for example without a network, the script says so and exits 0.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
program=${1:?'tests/mcp/run.sh: name the program'}
package=mcp==2.3.0
environment=${CARGO_TARGET_DIR:-$root/target}/python-${package//==/-}

if [ ! -e "$environment/installed" ]; then
    mkdir -p "$(dirname "$environment")"
    rm -rf "$environment"
    if ! { python3 -m venv "$environment" &&
        "$environment/bin/pip" install --quiet --disable-pip-version-check --timeout 10 --retries 1 "$package" &&
        touch "$environment/installed"; } >"$environment.log" 2>&1; then
        echo "not run: Python's client ($package) could not be installed:"
        tail -n 3 "$environment.log"
        exit 0
    fi
fi
"$environment/bin/python" "$root/tests/mcp/client.py" "$program"
echo "Python's client ($package): versions, progress, cancellation, errors, two clients"
