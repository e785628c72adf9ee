// SPDX-License-Identifier: GPL-2.0-only
/*
 * Returns free memory to the host. Linux reports large runs of free pages a few seconds after they
 * became free (mm/page_reporting.c), and the host takes its pages back. When the kernel uses such
 * pages again, the host gives new ones, full of zeroes.
 *
 * A few free pages on the vCPUs' own lists can split hundreds of runs. So these lists are emptied
 * some time after each report. Runs that become whole by that are reported in their turn. This ends
 * when a turn has nothing to report.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/page_reporting.h>
#include <linux/scatterlist.h>
#include <linux/workqueue.h>
#include <asm/host.h>
#include "machine.h"
#include "memory.h"

/* Runs of 256 KB and more. Smaller ones are soon used again, and cost a host call each. */
#define OB_REPORT_ORDER 6
#define OB_DRAIN_DELAY HZ

static void ob_drain(struct work_struct *work)
{
	drain_all_pages(NULL);
}

static DECLARE_DELAYED_WORK(ob_drain_work, ob_drain);

/* While free memory is being reported, nobody can allocate it. Memory need not grow for that. */
bool ob_memory_is_reported __read_mostly;

static int ob_report(struct page_reporting_dev_info *device, struct scatterlist *runs,
		     unsigned int count)
{
	struct scatterlist *run;
	unsigned int i;

	WRITE_ONCE(ob_memory_is_reported, true);
	for_each_sg(runs, run, count, i) {
		ob_host_region_discard(ob_host, (unsigned long)sg_virt(run), run->length);
		cond_resched();
	}
	WRITE_ONCE(ob_memory_is_reported, false);
	mod_delayed_work(system_wq, &ob_drain_work, OB_DRAIN_DELAY);
	return 0;
}

static struct page_reporting_dev_info ob_report_device = {
	.report = ob_report,
	.order = OB_REPORT_ORDER,
};

static int __init ob_report_start(void)
{
	if (ob_machine.ram_is_pinned)
		return 0;
	return page_reporting_register(&ob_report_device);
}
late_initcall(ob_report_start);
