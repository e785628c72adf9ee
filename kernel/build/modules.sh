#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Packs the modules of one variant, its components, into one archive beside the library.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

mkdir -p "$LIB_DIR"
python3 "$BUILD/components.py" "$OBJECTS" "$LIB_DIR/outboard-components"
