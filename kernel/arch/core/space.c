// SPDX-License-Identifier: GPL-2.0-only
/* The space of the local clients. It needs no state but its address. */
#include "space.h"

struct ob_space ob_local_space;
