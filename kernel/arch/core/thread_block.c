// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a host thread knows of itself: asm/vcpu.h, vcpu.h. In a file of its own: a file that both
 * defines and uses it could be compiled to an access that only works in a program, not in a shared object.
 */
#include <asm/vcpu.h>
#include "vcpu.h"

__thread struct ob_thread ob_thread_block __attribute__((tls_model("initial-exec")));
__thread struct ob_spinning ob_spinning __attribute__((tls_model("initial-exec")));
__thread u64 ob_self __attribute__((tls_model("initial-exec")));
__thread struct ob_loan ob_loan __attribute__((tls_model("initial-exec")));
