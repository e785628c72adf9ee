/* SPDX-License-Identifier: GPL-2.0-only */
/* Vector registers of programs: space_vector.c. */
#ifndef OUTBOARD_CORE_SPACE_VECTOR_H
#define OUTBOARD_CORE_SPACE_VECTOR_H

#include <linux/types.h>

/* Bytes of the part of an area that FXSAVE has. */
#define OB_LEGACY_SIZE 512

struct membuf;
struct ob_vcpu;
struct ob_xsave;
struct task_struct;
struct thread_struct;

#ifdef CONFIG_MMU
void ob_vectors_setup(void);
int ob_vectors_make(struct thread_struct *thread);
int ob_vectors_copy(struct thread_struct *thread);
void ob_vectors_free(struct thread_struct *thread);
void ob_vectors_reset(void);
void ob_vectors_fetch(struct task_struct *task);
bool ob_vectors_load(struct ob_vcpu *vcpu);
int ob_vectors_fault_code(bool is_x87);
unsigned long ob_vectors_frame_size(void);
int ob_vectors_to_frame(void __user *frame);
int ob_vectors_from_frame(const void __user *frame);
unsigned int ob_vectors_area_size(void);
void ob_vectors_show(struct task_struct *task, struct membuf *to, bool legacy);
int ob_vectors_take(struct task_struct *task, struct ob_xsave *from, bool legacy);
#else
static inline void ob_vectors_free(struct thread_struct *thread)
{
}

static inline void ob_vectors_fetch(struct task_struct *task)
{
}
#endif

#endif
