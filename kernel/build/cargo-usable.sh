#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Succeeds if there is a cargo that can build crates/: of the version that
# crates/Cargo.toml asks for, or newer.
set -euo pipefail

needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$(dirname "$0")/../../crates/Cargo.toml")
found=$(cargo --version 2>/dev/null | cut -d' ' -f2) || exit 1
printf '%s\n%s\n' "$needed" "$found" | sort -V -C
