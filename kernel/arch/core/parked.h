/* SPDX-License-Identifier: GPL-2.0-only */
/* A vCPU whose client is out: parked.c. */
#ifndef OUTBOARD_CORE_PARKED_H
#define OUTBOARD_CORE_PARKED_H

#include <linux/types.h>

struct ob_vcpu;

void ob_parked_service(struct ob_vcpu *vcpu);
void ob_check_request(struct ob_vcpu *vcpu);
bool ob_evict_by_client(struct ob_vcpu *vcpu);
bool ob_check_is_due(struct ob_vcpu *vcpu, u64 now);
void ob_check_plan(struct ob_vcpu *vcpu, u64 now);

#endif
