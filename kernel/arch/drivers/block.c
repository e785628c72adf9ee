// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks of the host as block devices vda, vdb, ...
 *
 * A request goes to the host as a whole. The host completes it at once if it has the data in
 * memory. Else the host raises the block interrupt later, whose handler takes all completed
 * requests. The vCPU is free meanwhile (V7). An error of the host becomes the request's error.
 *
 * A journal commits by a write that needs a flush before it. Linux sends the flush as a request of
 * its own, and the write when the flush is complete. Here the two are one request:
 * __wrap_blk_insert_flush().
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <asm/host.h>
#include <outboard/gate.h>
#include "../core/driver.h"
#include "../core/gate.h"
#include "../core/irq.h"
#include "../core/machine.h"
#include "../core/vcpu.h"

#define OB_QUEUE_DEPTH 32
#define OB_SEGMENTS_MAX 128
#define OB_TRANSFER_MAX SZ_1M

struct ob_disk {
	u32 number;			/* the host's */
	int index;			/* of the name */
	bool can_flush_write;		/* OB_BLOCK_FLUSH_WRITE */
	bool going;			/* no more opens; under the open_mutex of the gendisk */
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct list_head list;
};

struct ob_command {
	struct ob_block_request request;
	struct ob_vcpu *submitter;
	struct ob_block_segment segments[OB_SEGMENTS_MAX];
};

static LIST_HEAD(ob_disks);
static DEFINE_MUTEX(ob_disks_lock);
static DEFINE_IDA(ob_disk_indices);
/* Writes and flushes that failed since boot. */
static atomic_long_t ob_write_errors;

/*
 * A failed discard loses no data. If the host does not support an operation, Linux replaces it by
 * others.
 */
static bool ob_is_write_error(enum req_op operation, int result)
{
	if (!result || result == -EOPNOTSUPP || operation == REQ_OP_DISCARD)
		return false;
	return op_is_write(operation) || operation == REQ_OP_FLUSH;
}

/*
 * Linux knows one reason of missing room. A host has others: a quota, and the largest size of a
 * file, of its process or file system.
 */
static blk_status_t ob_status_of(int result)
{
	switch (result) {
	case -EDQUOT:
	case -EFBIG:
		return BLK_STS_NOSPC;
	default:
		return errno_to_blk_status(result);
	}
}

static void ob_command_end(struct ob_command *command)
{
	struct request *rq = blk_mq_rq_from_pdu(command);

	atomic_dec(&command->submitter->requests);
	if (ob_is_write_error(req_op(rq), command->request.result))
		atomic_long_inc(&ob_write_errors);
	blk_mq_end_request(rq, ob_status_of(command->request.result));
}

static irqreturn_t ob_block_interrupt(int irq, void *unused)
{
	struct ob_block_request *request = ob_host_block_completed(ob_host), *next;

	for (; request; request = next) {
		next = request->next;
		ob_command_end(container_of(request, struct ob_command, request));
	}
	return IRQ_HANDLED;
}

static int ob_operation(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return OB_BLOCK_READ;
	case REQ_OP_WRITE:
		return rq->cmd_flags & REQ_PREFLUSH ? OB_BLOCK_FLUSH_WRITE : OB_BLOCK_WRITE;
	case REQ_OP_FLUSH:
		return OB_BLOCK_FLUSH;
	case REQ_OP_DISCARD:
		return OB_BLOCK_DISCARD;
	case REQ_OP_WRITE_ZEROES:
		return rq->cmd_flags & REQ_NOUNMAP ? OB_BLOCK_ALLOCATE_ZEROES :
						     OB_BLOCK_WRITE_ZEROES;
	default:
		return -EOPNOTSUPP;
	}
}

static bool ob_has_data(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
}

/* Neighbouring pages of RAM are neighbours in the host's address space too. */
static u32 ob_collect_segments(struct request *rq, struct ob_block_segment *segments)
{
	struct req_iterator iterator;
	struct bio_vec part;
	u32 count = 0;

	rq_for_each_bvec(part, rq, iterator)
		segments[count++] = (struct ob_block_segment) {
			.address = page_address(part.bv_page) + part.bv_offset,
			.length = part.bv_len,
		};
	return count;
}

static blk_status_t ob_queue_rq(struct blk_mq_hw_ctx *queue, const struct blk_mq_queue_data *data)
{
	struct ob_disk *disk = queue->queue->queuedata;
	struct request *rq = data->rq;
	struct ob_command *command = blk_mq_rq_to_pdu(rq);
	int operation = ob_operation(rq);

	if (operation < 0)
		return BLK_STS_NOTSUPP;
	command->request = (struct ob_block_request) {
		.disk = disk->number,
		.operation = operation,
		.force_unit_access = !!(rq->cmd_flags & REQ_FUA),
		.offset = operation == OB_BLOCK_FLUSH ? 0 : blk_rq_pos(rq) << SECTOR_SHIFT,
		.length = blk_rq_bytes(rq),
		.segments = command->segments,
		.ahead = !!(rq->cmd_flags & REQ_RAHEAD),
	};
	if (ob_has_data(rq))
		command->request.segment_count = ob_collect_segments(rq, command->segments);
	blk_mq_start_request(rq);
	/* This request never completes: the process is about to end. */
	if (unlikely(READ_ONCE(ob_machine.panicking)))
		return BLK_STS_OK;
	command->submitter = ob_this_vcpu();
	atomic_inc(&command->submitter->requests);
	if (ob_host_block_submit(ob_host, &command->request) == 1)
		ob_command_end(command);
	return BLK_STS_OK;
}

static const struct blk_mq_ops ob_queue_operations = {
	.queue_rq = ob_queue_rq,
};

bool __real_blk_insert_flush(struct request *rq);
bool __wrap_blk_insert_flush(struct request *rq);

/*
 * Returns false if the request is to be queued as it is. Then ob_queue_rq() finds REQ_PREFLUSH, a
 * flag that Linux would remove. This function sets REQ_SYNC as Linux would. Linux keeps flushes
 * without data: it merges those of several callers into one.
 *
 * Dodge blk_insert_flush: a write that needs a flush before it is one request to the host.
 */
bool __wrap_blk_insert_flush(struct request *rq)
{
	const struct ob_disk *disk = rq->q->queuedata;

	if (rq->q->mq_ops != &ob_queue_operations || !disk->can_flush_write ||
	    !(rq->cmd_flags & REQ_PREFLUSH) || !blk_rq_sectors(rq))
		return __real_blk_insert_flush(rq);
	rq->cmd_flags |= REQ_SYNC;
	return false;
}

/* Linux holds the open_mutex. */
static int ob_disk_opened(struct gendisk *gendisk, blk_mode_t mode)
{
	struct ob_disk *disk = gendisk->private_data;

	return disk->going ? -ENXIO : 0;
}

static const struct block_device_operations ob_disk_device_operations = {
	.owner = THIS_MODULE,
	.open = ob_disk_opened,
};

static struct queue_limits ob_disk_limits(const struct ob_block_info *info, u32 sector_size)
{
	struct queue_limits limits = {
		.logical_block_size = sector_size,
		.physical_block_size = max(sector_size, 512u),
		.max_hw_sectors = OB_TRANSFER_MAX >> SECTOR_SHIFT,
		.max_segments = OB_SEGMENTS_MAX,
		.max_segment_size = OB_TRANSFER_MAX,
		.io_opt = OB_TRANSFER_MAX / 2,
		.dma_alignment = 3,	/* any address will do, but 0 would mean a sector */
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
	};

	if (info->can_discard) {
		limits.max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
		limits.max_write_zeroes_sectors = UINT_MAX >> SECTOR_SHIFT;
		limits.discard_granularity = max(sector_size, 4096u);
	}
	return limits;
}

/* 0: "vda", 25: "vdz", 26: "vdaa", ... */
static void ob_disk_name(int index, char *name, size_t size)
{
	char letters[8];
	int at = sizeof(letters);

	letters[--at] = '\0';
	for (; index >= 0; index = index / 26 - 1)
		letters[--at] = 'a' + index % 26;
	snprintf(name, size, "vd%s", letters + at);
}

static int ob_disk_create(struct ob_disk *disk, const struct ob_block_info *info, u32 sector_size)
{
	struct queue_limits limits = ob_disk_limits(info, sector_size);
	struct gendisk *gendisk;
	int error;

	disk->can_flush_write = info->can_flush_write;
	disk->tags.ops = &ob_queue_operations;
	disk->tags.nr_hw_queues = 1;
	disk->tags.queue_depth = OB_QUEUE_DEPTH;
	disk->tags.numa_node = NUMA_NO_NODE;
	disk->tags.cmd_size = sizeof(struct ob_command);
	disk->tags.flags = BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	error = blk_mq_alloc_tag_set(&disk->tags);
	if (error)
		return error;
	gendisk = blk_mq_alloc_disk(&disk->tags, &limits, disk);
	if (IS_ERR(gendisk)) {
		blk_mq_free_tag_set(&disk->tags);
		return PTR_ERR(gendisk);
	}
	gendisk->fops = &ob_disk_device_operations;
	gendisk->private_data = disk;
	ob_disk_name(disk->index, gendisk->disk_name, DISK_NAME_LEN);
	set_capacity(gendisk, info->size / sector_size * (sector_size >> SECTOR_SHIFT));
	set_disk_ro(gendisk, info->read_only);
	error = add_disk(gendisk);
	if (error) {
		put_disk(gendisk);
		blk_mq_free_tag_set(&disk->tags);
		return error;
	}
	disk->gendisk = gendisk;
	return 0;
}

/* `ran`: the call was made, and `result` is valid, even if a signal ends the thread after it. */
struct ob_disk_call {
	bool ran;
	long result;
	u32 number;
	u32 sector_size;
	struct ob_block_info info;
	char *name;
};

static long ob_disk_do(long (*function)(void *argument), struct ob_disk_call *call)
{
	long error = ob_call(function, call);

	return call->ran ? call->result : error;
}

static long ob_disk_add_new(struct ob_disk_call *add)
{
	struct ob_disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	int error;

	if (!disk)
		return -ENOMEM;
	disk->number = add->number;
	disk->index = ida_alloc(&ob_disk_indices, GFP_KERNEL);
	error = disk->index;
	if (error >= 0)
		error = ob_disk_create(disk, &add->info, add->sector_size);
	if (error) {
		if (disk->index >= 0)
			ida_free(&ob_disk_indices, disk->index);
		kfree(disk);
		return error;
	}
	strscpy(add->name, disk->gendisk->disk_name, DISK_NAME_LEN);
	mutex_lock(&ob_disks_lock);
	list_add(&disk->list, &ob_disks);
	mutex_unlock(&ob_disks_lock);
	return 0;
}

static long ob_disk_add_call(void *argument)
{
	struct ob_disk_call *add = argument;

	add->result = ob_disk_add_new(add);
	add->ran = true;
	return 0;
}

int ob_kernel_disk_add(const struct ob_disk_parameters *parameters, char name[32])
{
	struct ob_disk_call add = { .name = name };
	long error;
	int number;

	if (!READ_ONCE(ob_machine.ready) || !READ_ONCE(ob_boot))
		return -ENODEV;
	number = ob_host_block_open(ob_host, parameters->path, parameters->flags, &add.info);
	if (number < 0)
		return number;
	add.number = number;
	add.sector_size = parameters->sector_size ?: add.info.sector_size;
	if (add.sector_size != 512 && add.sector_size != 4096)
		error = -EINVAL;
	else if (add.sector_size < add.info.sector_size)
		error = -EINVAL;
	else
		error = ob_disk_do(ob_disk_add_call, &add);
	if (error) {
		ob_host_block_close(ob_host, number);
		return error;
	}
	return number;
}

static struct ob_disk *ob_disk_find(u32 number)
{
	struct ob_disk *disk;

	list_for_each_entry(disk, &ob_disks, list)
		if (disk->number == number)
			return disk;
	return NULL;
}

/* No client can open the disk from now on. False: a client has it open. */
static bool ob_disk_close_to_all(struct ob_disk *disk)
{
	struct block_device *device;
	unsigned long index;
	bool open = false;

	mutex_lock(&disk->gendisk->open_mutex);
	xa_for_each(&disk->gendisk->part_tbl, index, device)
		open |= atomic_read(&device->bd_openers) > 0;
	disk->going = !open;
	mutex_unlock(&disk->gendisk->open_mutex);
	return !open;
}

static long ob_disk_remove_one(u32 number)
{
	struct ob_disk *disk;

	mutex_lock(&ob_disks_lock);
	disk = ob_disk_find(number);
	if (!disk || !ob_disk_close_to_all(disk)) {
		mutex_unlock(&ob_disks_lock);
		return disk ? -EBUSY : -ENOENT;
	}
	list_del(&disk->list);
	mutex_unlock(&ob_disks_lock);
	del_gendisk(disk->gendisk);
	put_disk(disk->gendisk);
	blk_mq_free_tag_set(&disk->tags);
	ida_free(&ob_disk_indices, disk->index);
	kfree(disk);
	return 0;
}

static long ob_disk_remove_call(void *argument)
{
	struct ob_disk_call *remove = argument;

	remove->result = ob_disk_remove_one(remove->number);
	remove->ran = true;
	return 0;
}

int ob_kernel_disk_remove(u32 number)
{
	struct ob_disk_call remove = { .number = number };
	long error = ob_disk_do(ob_disk_remove_call, &remove);

	if (!error)
		ob_host_block_close(ob_host, number);
	return error;
}

static int ob_block_stop(void)
{
	return atomic_long_read(&ob_write_errors) ? -EIO : 0;
}

static void ob_block_close(void)
{
	struct ob_disk *disk;

	list_for_each_entry(disk, &ob_disks, list)
		ob_host_block_close(ob_host, disk->number);
}

static struct ob_driver ob_block_driver = {
	.stop = ob_block_stop,
	.close = ob_block_close,
};

static int __init ob_block_init(void)
{
	unsigned int irq = irq_create_mapping(ob_irq_domain, OB_INTERRUPT_BLOCK);

	ob_driver_register(&ob_block_driver);
	return irq ? request_irq(irq, ob_block_interrupt, 0, "block", NULL) : -ENOMEM;
}
subsys_initcall(ob_block_init);
