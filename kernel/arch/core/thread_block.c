// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calling host thread's block, and how long it spins (vcpu.c). In a file of its own: a file that both
 * defines and uses it could be compiled to an access that only works in a program, not in a shared object.
 */
#include <asm/vcpu.h>
#include "vcpu.h"

__thread struct ob_thread ob_thread_block __attribute__((tls_model("initial-exec")));
__thread u32 ob_patience __attribute__((tls_model("initial-exec")));
