/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel image that the library carries (hypercall/posix/image.c). */
	.section .rodata.outboard_image, "a"
	.balign 4096
	.globl ob_own_image
	.hidden ob_own_image
	.type ob_own_image, @object
ob_own_image:
	.incbin "kernel.image"
	.size ob_own_image, . - ob_own_image
	.globl ob_own_image_end
	.hidden ob_own_image_end
ob_own_image_end:
	/* Maps of its last page show nothing of what follows. */
	.balign 4096
	.section .note.GNU-stack, "", @progbits
