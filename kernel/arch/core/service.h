/* SPDX-License-Identifier: GPL-2.0-only */
/* The service thread of a vCPU: service.c. */
#ifndef OUTBOARD_CORE_SERVICE_H
#define OUTBOARD_CORE_SERVICE_H

#include <linux/compiler.h>
#include "vcpu.h"

int ob_service_start(struct ob_vcpu *vcpu);
void ob_service_start_now(struct ob_vcpu *vcpu);
void ob_service_stop(struct ob_vcpu *vcpu);
void ob_service_end(struct ob_vcpu *vcpu);
u32 *ob_service_raise(struct ob_vcpu *vcpu);
void ob_service_notify(struct ob_vcpu *vcpu);

/*
 * Before the calling thread needs another thread of the vCPU: makes the service thread if it is not
 * made yet.
 */
static inline void ob_service_needed(struct ob_vcpu *vcpu)
{
	if (unlikely(vcpu->service.owes_carrier) && !READ_ONCE(vcpu->service.is_made))
		ob_service_start_now(vcpu);
}

#endif
