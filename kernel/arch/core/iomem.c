// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory. If the host can map it, ioremap() returns its address in the host's address
 * space, and an access is one instruction. If the host cannot, ioremap() returns a token: bit 63
 * and the bus address, which is no address of any process. Each access is then a hypercall.
 *
 * Callers of memremap() use a pointer, so it never returns a token.
 *
 * inb() and its relatives arrive here with the number of a port as the address. No port answers:
 * a read returns ones, a write does nothing.
 */
#include <linux/align.h>
#include <linux/export.h>
#include <linux/io.h>
#include <asm/host.h>
#include <asm/page.h>

#define OB_TOKEN (1UL << 63)
#define OB_PORTS 0x10000

static bool ob_is_token(const volatile void __iomem *address)
{
	return ((unsigned long)address & -OB_IOMEM_BASE) == OB_TOKEN;
}

static bool ob_is_port(const volatile void __iomem *address)
{
	return (unsigned long)address < OB_PORTS;
}

static u64 ob_token_address(const volatile void __iomem *address)
{
	return (unsigned long)address & (OB_IOMEM_BASE - 1);
}

void __iomem *ioremap(phys_addr_t address, size_t size)
{
	u64 bus = address - OB_IOMEM_BASE, pointer;

	if (address < OB_IOMEM_BASE || bus >= OB_IOMEM_BASE || !size || size > OB_IOMEM_BASE - bus)
		return NULL;
	switch (ob_host_iomem_map(ob_host, bus, size, &pointer)) {
	case 0:
		return (void __iomem *)pointer;
	case -EOPNOTSUPP:
		return (void __iomem *)(OB_TOKEN | bus);
	default:
		return NULL;
	}
}
EXPORT_SYMBOL(ioremap);

void __iomem *ob_ioremap_pointer(phys_addr_t address, size_t size)
{
	void __iomem *mapped = ioremap(address, size);

	return ob_is_token(mapped) ? NULL : mapped;
}

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
		return ob_host_iomem_read(ob_host, ob_token_address(address),		\
					  sizeof(type));				\
	if (ob_is_port(address))							\
		return (type)~0ULL;							\
	return *(const volatile type __force *)address;					\
}											\
EXPORT_SYMBOL(__raw_read##letter);							\
											\
void __raw_write##letter(type value, volatile void __iomem *address)			\
{											\
	if (ob_is_token(address))							\
		ob_host_iomem_write(ob_host, ob_token_address(address), sizeof(type),	\
				    value);						\
	else if (!ob_is_port(address))							\
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
