// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares what aesni.c encrypts and decrypts with Linux's portable code: keys, lengths, pieces of
 * memory and their alignment at random, in place and not. Loading fails at the first difference,
 * which the log describes.
 */
#include <crypto/skcipher.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#define ROUNDS 4000
#define LENGTH_MOST 4200
#define PIECES_MOST 6
#define IV_SIZE 16

static const struct mode {
	const char *ours, *portable;
	unsigned int keys;		/* of 16, 24 or 32 bytes each */
	unsigned int step;		/* lengths are multiples of this */
} modes[] = {
	{ "xts-aes-outboard", "xts(ecb(aes-generic))", 2, 1 },
	{ "cbc-aes-outboard", "cbc(aes-generic)", 1, 16 },
	{ "ecb(aes-outboard)", "ecb(aes-generic)", 1, 16 },
};

struct run {
	const struct mode *mode;
	struct crypto_skcipher *ciphers[2];
	struct rnd_state random;
	unsigned int length, offset, key_length;
	bool encrypt, in_place;
	u8 key[64], iv[IV_SIZE];
	u8 *input, *outputs[2];
};

static u32 below(struct run *run, u32 end)
{
	return prandom_u32_state(&run->random) % end;
}

/*
 * The memory in pieces, the first of them as long as a block at most; the same ones for both
 * ciphers.
 */
static void cut(struct run *run, u64 seed, struct scatterlist *list, u8 *start)
{
	unsigned int left = run->length, i;
	struct rnd_state random;

	prandom_seed_state(&random, seed);
	sg_init_table(list, PIECES_MOST);
	for (i = 0; left; i++) {
		unsigned int most = i ? left : min(left, 16u);
		unsigned int piece = i == PIECES_MOST - 1 ? left
							  : 1 + prandom_u32_state(&random) % most;

		sg_set_buf(&list[i], start, piece);
		start += piece;
		left -= piece;
		if (!left)
			sg_mark_end(&list[i]);
	}
}

static int crypt(struct run *run, int which, u64 seed, u8 *iv)
{
	struct scatterlist from[PIECES_MOST], to[PIECES_MOST];
	u8 *output = run->outputs[which] + run->offset;
	struct skcipher_request *request = skcipher_request_alloc(run->ciphers[which], GFP_KERNEL);
	DECLARE_CRYPTO_WAIT(wait);
	int error;

	if (!request)
		return -ENOMEM;
	memcpy(iv, run->iv, IV_SIZE);
	memset(run->outputs[which], 0x55, LENGTH_MOST + 64);
	if (run->in_place)
		memcpy(output, run->input, run->length);
	cut(run, seed, from, run->in_place ? output : run->input);
	cut(run, seed + 1, to, output);
	skcipher_request_set_callback(request,
				      CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG,
				      crypto_req_done, &wait);
	skcipher_request_set_crypt(request, from, run->in_place ? from : to, run->length, iv);
	error = crypto_skcipher_setkey(run->ciphers[which], run->key, run->key_length)
			?: crypto_wait_req(run->encrypt ? crypto_skcipher_encrypt(request)
							: crypto_skcipher_decrypt(request),
					   &wait);
	skcipher_request_free(request);
	return error;
}

static void choose(struct run *run)
{
	const struct mode *mode = run->mode;

	run->length = 16 + below(run, below(run, 2) ? 200 : LENGTH_MOST - 16);
	run->length -= run->length % mode->step;
	run->offset = below(run, 64);
	run->key_length = mode->keys * (16 + 8 * below(run, 3));
	run->encrypt = below(run, 2);
	run->in_place = below(run, 2);
	prandom_bytes_state(&run->random, run->key, sizeof(run->key));
	prandom_bytes_state(&run->random, run->iv, sizeof(run->iv));
	prandom_bytes_state(&run->random, run->input, run->length);
}

static int compare(struct run *run)
{
	u64 seed = prandom_u32_state(&run->random);
	u8 ivs[2][IV_SIZE];
	int errors[2], i;

	choose(run);
	for (i = 0; i < 2; i++)
		errors[i] = crypt(run, i, seed, ivs[i]);
	if (errors[0] == errors[1] && !memcmp(run->outputs[0], run->outputs[1], LENGTH_MOST + 64) &&
	    (run->mode->step == 1 || !memcmp(ivs[0], ivs[1], IV_SIZE)))
		return errors[0];
	pr_err("aes_test: %s %s %u bytes%s, key of %u: differs (errors %d, %d)\n", run->mode->ours,
	       run->encrypt ? "encrypts" : "decrypts", run->length,
	       run->in_place ? " in place" : "", run->key_length, errors[0], errors[1]);
	return -EBADMSG;
}

static int compare_mode(struct run *run)
{
	int i, error = 0;

	run->ciphers[0] = crypto_alloc_skcipher(run->mode->ours, 0, 0);
	run->ciphers[1] = crypto_alloc_skcipher(run->mode->portable, 0, 0);
	for (i = 0; i < 2; i++)
		if (IS_ERR(run->ciphers[i]))
			error = PTR_ERR(run->ciphers[i]);
	if (error)
		pr_err("aes_test: no %s or no %s\n", run->mode->ours, run->mode->portable);
	for (i = 0; i < ROUNDS && !error; i++)
		error = compare(run);
	for (i = 0; i < 2; i++)
		if (!IS_ERR(run->ciphers[i]))
			crypto_free_skcipher(run->ciphers[i]);
	if (!error)
		pr_info("aes_test: %s: %d rounds are equal\n", run->mode->ours, ROUNDS);
	return error;
}

/* A request by the name of the mode gets our code. */
static int preferred(const struct mode *mode, const char *name)
{
	struct crypto_skcipher *cipher = crypto_alloc_skcipher(name, 0, 0);
	const char *driver;
	int error = 0;

	if (IS_ERR(cipher))
		return PTR_ERR(cipher);
	driver = crypto_skcipher_driver_name(cipher);
	if (strcmp(driver, mode->ours)) {
		pr_err("aes_test: %s is %s\n", name, driver);
		error = -ENOENT;
	}
	crypto_free_skcipher(cipher);
	return error;
}

static int __init aes_test_init(void)
{
	struct run *run = kzalloc(sizeof(*run), GFP_KERNEL);
	int error = -ENOMEM, i;

	if (!run)
		return error;
	run->input = kmalloc(LENGTH_MOST, GFP_KERNEL);
	for (i = 0; i < 2; i++)
		run->outputs[i] = kmalloc(LENGTH_MOST + 64, GFP_KERNEL);
	if (run->input && run->outputs[0] && run->outputs[1]) {
		u64 seed = get_random_u64();

		pr_info("aes_test: seed %llu\n", seed);
		prandom_seed_state(&run->random, seed);
		error = preferred(&modes[0], "xts(aes)") ?: preferred(&modes[1], "cbc(aes)");
		error = error ?: preferred(&modes[2], "ecb(aes)");
		for (i = 0; i < ARRAY_SIZE(modes) && !error; i++) {
			run->mode = &modes[i];
			error = compare_mode(run);
		}
	}
	kfree(run->input);
	for (i = 0; i < 2; i++)
		kfree(run->outputs[i]);
	kfree(run);
	return error;
}
module_init(aes_test_init);

static void __exit aes_test_exit(void)
{
}
module_exit(aes_test_exit);

MODULE_LICENSE("GPL");
