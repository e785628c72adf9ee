// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calling host thread's block. In a file of its own: a file that both
 * defines and uses it could be compiled to an access that only works in a program, not in a shared object.
 */
#include <asm/vcpu.h>

__thread struct ob_thread ob_thread_block __attribute__((tls_model("initial-exec")));
