#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# public-names.sh INCLUDE_DIR OBJECT...: lists the public API, the functions
# that the objects define and the public headers declare.
set -euo pipefail

include=$1
shift
comm -12 \
	<(grep -hoE '\bob_[a-z0-9_]+ *\(' "$include"/outboard/*.h | tr -d ' (' | sort -u) \
	<(nm -g --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u)
