// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory and ports. If the host can map device memory, ioremap() returns its address in the
 * host's address space, and an access is one instruction. If the host cannot, ioremap() returns a
 * token, which is no address of any process. Each access is then a hypercall. inb() and
 * ioport_map() add the number of a port to PCI_IOBASE: that is a token, too. So every accessor
 * works for both.
 *
 *   bit 63, bit 62		the low bits
 *   1       0			address on the bus
 *   1       1			number of a port
 *
 * Callers of memremap() use a pointer, so it never returns a token.
 */
#include <linux/align.h>
#include <linux/export.h>
#include <linux/io.h>
#include <asm/host.h>
#include <asm/page.h>
#include "host.h"

#define OB_TOKEN (1UL << 63)

static bool ob_is_token(const volatile void __iomem *address)
{
	return (long)address < 0;
}

static bool ob_is_port(const volatile void __iomem *token)
{
	return (unsigned long)token >= (unsigned long)PCI_IOBASE;
}

static u64 ob_token_address(const volatile void __iomem *token)
{
	return (unsigned long)token & (OB_IOMEM_BASE - 1);
}

static bool ob_port_exists(u64 port, u32 size)
{
	return ob_host_groups.ports && port + size - 1 <= IO_SPACE_LIMIT;
}

/* A port has 4 bytes at most. Linux makes one access of 8 bytes for ioread64() of an I/O BAR. */
static u64 ob_port_read(u64 port, u32 size)
{
	if (size == sizeof(u64))
		return (u32)ob_port_read(port, 4) | ob_port_read(port + 4, 4) << 32;
	return ob_port_exists(port, size) ? ob_host_port_read(ob_host, port, size) : ~0ULL;
}

static void ob_port_write(u64 port, u32 size, u64 value)
{
	if (size == sizeof(u64)) {
		ob_port_write(port, 4, value);
		ob_port_write(port + 4, 4, value >> 32);
	} else if (ob_port_exists(port, size)) {
		ob_host_port_write(ob_host, port, size, value);
	}
}

static u64 ob_token_read(const volatile void __iomem *token, u32 size)
{
	if (ob_is_port(token))
		return ob_port_read(ob_token_address(token), size);
	return ob_host_iomem_read(ob_host, ob_token_address(token), size);
}

static void ob_token_write(volatile void __iomem *token, u32 size, u64 value)
{
	if (ob_is_port(token))
		ob_port_write(ob_token_address(token), size, value);
	else
		ob_host_iomem_write(ob_host, ob_token_address(token), size, value);
}

static void __iomem *ob_ioremap(phys_addr_t address, size_t size, u32 flags)
{
	u64 bus = address - OB_IOMEM_BASE, pointer;

	if (address < OB_IOMEM_BASE || bus >= OB_IOMEM_BASE || !size || size > OB_IOMEM_BASE - bus)
		return NULL;
	switch (ob_host_iomem_map(ob_host, bus, size, flags, &pointer)) {
	case 0:
		return (void __iomem *)pointer;
	case -EOPNOTSUPP:
		return (void __iomem *)(OB_TOKEN | bus);
	default:
		return NULL;
	}
}

void __iomem *ioremap(phys_addr_t address, size_t size)
{
	return ob_ioremap(address, size, OB_IOMEM_UNCACHED);
}
EXPORT_SYMBOL(ioremap);

void __iomem *ob_ioremap_wc(phys_addr_t address, size_t size)
{
	return ob_ioremap(address, size, OB_IOMEM_WRITE_COMBINING);
}
EXPORT_SYMBOL(ob_ioremap_wc);

static bool ob_is_ram(const volatile void __iomem *address)
{
	return (unsigned long)address >= ob_layout.ram &&
	       (unsigned long)address < ob_layout.ram_ceiling;
}

/* memunmap() passes addresses of RAM, too: no call of the host has mapped that. */
void iounmap(volatile void __iomem *address)
{
	if (address && !ob_is_token(address) && !ob_is_ram(address))
		ob_host_iomem_unmap(ob_host, (unsigned long)address);
}
EXPORT_SYMBOL(iounmap);

#define OB_ACCESSORS(letter, type)							\
type __raw_read##letter(const volatile void __iomem *address)				\
{											\
	if (ob_is_token(address))							\
		return ob_token_read(address, sizeof(type));				\
	return *(const volatile type __force *)address;					\
}											\
EXPORT_SYMBOL(__raw_read##letter);							\
											\
void __raw_write##letter(type value, volatile void __iomem *address)			\
{											\
	if (ob_is_token(address))							\
		ob_token_write(address, sizeof(type), value);				\
	else										\
		*(volatile type __force *)address = value;				\
}											\
EXPORT_SYMBOL(__raw_write##letter)

OB_ACCESSORS(b, u8);
OB_ACCESSORS(w, u16);
OB_ACCESSORS(l, u32);
OB_ACCESSORS(q, u64);

/* Is an access of 8 bytes aligned, and not beyond the end? */
static bool ob_takes_word(const volatile void __iomem *address, size_t size)
{
	return size >= sizeof(u64) && IS_ALIGNED((unsigned long)address, sizeof(u64));
}

void memcpy_fromio(void *buffer, const volatile void __iomem *address, size_t size)
{
	size_t step;

	for (; size; size -= step, address += step, buffer += step) {
		step = ob_takes_word(address, size) ? sizeof(u64) : 1;
		if (step == 1)
			*(u8 *)buffer = __raw_readb(address);
		else
			*(u64 *)buffer = __raw_readq(address);
	}
}
EXPORT_SYMBOL(memcpy_fromio);

void memcpy_toio(volatile void __iomem *address, const void *buffer, size_t size)
{
	size_t step;

	for (; size; size -= step, address += step, buffer += step) {
		step = ob_takes_word(address, size) ? sizeof(u64) : 1;
		if (step == 1)
			__raw_writeb(*(const u8 *)buffer, address);
		else
			__raw_writeq(*(const u64 *)buffer, address);
	}
}
EXPORT_SYMBOL(memcpy_toio);

void memset_io(volatile void __iomem *address, int value, size_t size)
{
	size_t step;

	for (; size; size -= step, address += step) {
		step = ob_takes_word(address, size) ? sizeof(u64) : 1;
		if (step == 1)
			__raw_writeb(value, address);
		else
			__raw_writeq((u8)value * 0x0101010101010101ULL, address);
	}
}
EXPORT_SYMBOL(memset_io);
