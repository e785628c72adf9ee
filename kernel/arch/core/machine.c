// SPDX-License-Identifier: GPL-2.0-only
/* The state of the whole kernel. Below all other files, which read it. */
#include "machine.h"

struct ob_machine ob_machine;
