/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The archive of components, for programs that are linked with liboutboard.a
 * (hypercall/posix/component.c).
 */
	.section .rodata.outboard_components, "a"
	.balign 64
	.globl ob_component_archive
	.hidden ob_component_archive
	.type ob_component_archive, @object
ob_component_archive:
	.incbin "outboard-components"
	.size ob_component_archive, . - ob_component_archive
	.section .note.GNU-stack, "", @progbits
