/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Device memory and ports (core/iomem.c). ioremap() returns an address in the host's address space
 * if the host can map device memory there. Else it returns a token: each access is then a
 * hypercall. A port has a token, too.
 */
#ifndef _ASM_OUTBOARD_IO_H
#define _ASM_OUTBOARD_IO_H

#include <linux/compiler_types.h>
#include <linux/const.h>
#include <linux/types.h>

/* Port 0. The address of port N is N bytes above. */
#define PCI_IOBASE ((void __iomem *)(_AC(3, UL) << 62))
#define IO_SPACE_LIMIT 0xffff

/*
 * An accessor keeps the order of the program, as on x86. Write-combining memory has no order, not
 * even here: its drivers call wmb().
 */
#define __io_ar(value) barrier()
#define __io_bw() barrier()

/* The physical address of device memory is this one plus its bus address: RAM is never there. */
#define OB_IOMEM_BASE (_AC(1, UL) << 52)

#define ioremap ioremap
void __iomem *ioremap(phys_addr_t address, size_t size);
#define iounmap iounmap
void iounmap(volatile void __iomem *address);

/* Write-combining, if the host can do that. */
void __iomem *ob_ioremap_wc(phys_addr_t address, size_t size);

/* NULL in the place of a token. */
static inline void __iomem *ob_iomem_pointer(void __iomem *mapped)
{
	return (long)mapped < 0 ? NULL : mapped;
}

/*
 * memremap(), in kernel/iomem.c, returns what it gets from these functions as a pointer. Drivers
 * call them, too, but pass the result to the accessors below. Modules have no KBUILD_MODFILE.
 */
#ifdef KBUILD_MODFILE
#define OB_IS_MEMREMAP (!__builtin_strcmp(KBUILD_MODFILE, "kernel/iomem"))
#else
#define OB_IS_MEMREMAP 0
#endif

#define ioremap_wc ioremap_wc
static inline void __iomem *ioremap_wc(phys_addr_t address, size_t size)
{
	void __iomem *mapped = ob_ioremap_wc(address, size);

	return OB_IS_MEMREMAP ? ob_iomem_pointer(mapped) : mapped;
}

#define ioremap_wt ioremap_wt
static inline void __iomem *ioremap_wt(phys_addr_t address, size_t size)
{
	void __iomem *mapped = ioremap(address, size);

	return OB_IS_MEMREMAP ? ob_iomem_pointer(mapped) : mapped;
}

#define arch_memremap_wb(address, size)	\
	((__force void *)ob_iomem_pointer(ioremap(address, size)))

/* The host maps device memory anywhere: memunmap() leaves it to iounmap() what to unmap. */
#define IOREMAP_START 1UL
#define IOREMAP_END (~0UL)

#define __raw_readb __raw_readb
u8 __raw_readb(const volatile void __iomem *address);
#define __raw_readw __raw_readw
u16 __raw_readw(const volatile void __iomem *address);
#define __raw_readl __raw_readl
u32 __raw_readl(const volatile void __iomem *address);
#define __raw_readq __raw_readq
u64 __raw_readq(const volatile void __iomem *address);
#define __raw_writeb __raw_writeb
void __raw_writeb(u8 value, volatile void __iomem *address);
#define __raw_writew __raw_writew
void __raw_writew(u16 value, volatile void __iomem *address);
#define __raw_writel __raw_writel
void __raw_writel(u32 value, volatile void __iomem *address);
#define __raw_writeq __raw_writeq
void __raw_writeq(u64 value, volatile void __iomem *address);

#define memset_io memset_io
void memset_io(volatile void __iomem *address, int value, size_t size);
#define memcpy_fromio memcpy_fromio
void memcpy_fromio(void *buffer, const volatile void __iomem *address, size_t size);
#define memcpy_toio memcpy_toio
void memcpy_toio(volatile void __iomem *address, const void *buffer, size_t size);

#include <asm-generic/io.h>
#define page_to_phys(page) ((phys_addr_t)page_to_pfn(page) << PAGE_SHIFT)
#endif
