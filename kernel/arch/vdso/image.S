/* SPDX-License-Identifier: GPL-2.0-only */
/* The file that programs see as [vdso]. */
	.section .rodata, "a", @progbits
	.balign 16
	.globl ob_vdso_image, ob_vdso_image_end
ob_vdso_image:
	.incbin "arch/outboard/vdso/vdso.so"
ob_vdso_image_end:
	.if ob_vdso_image_end - ob_vdso_image > 4096
	.error "the file does not fit into a page"
	.endif
	.section .note.GNU-stack, "", @progbits
