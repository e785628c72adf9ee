// SPDX-License-Identifier: GPL-2.0-only
/*
 * AES with the processor's instructions: the cipher, and the modes XTS and CBC, which encrypted
 * disks use. Linux prefers these to its portable ones, which are many times as slow. The module
 * does not load on a processor that lacks the instructions.
 *
 * The key schedules are Linux's own: both the instructions and the portable code take what
 * aes_expandkey() makes. Vector registers need no care here. Interrupts and other tasks come by
 * function calls and host signals, and both keep these registers.
 */
#include <linux/crypto.h>
#include <linux/module.h>
#include <linux/unaligned.h>
#include <asm/cpuid.h>
#include <crypto/aes.h>
#include <crypto/algapi.h>
#include <crypto/internal/skcipher.h>
#include <crypto/scatterwalk.h>
#include <crypto/xts.h>

/* Before Linux's portable ones (100). */
#define OB_PRIORITY 300

/*
 * Blocks that are done side by side: an instruction takes several cycles, but one can begin in each
 * cycle.
 */
#define OB_LANES 8

typedef long long ob_block __attribute__((vector_size(AES_BLOCK_SIZE)));
typedef int ob_words __attribute__((vector_size(AES_BLOCK_SIZE)));
typedef ob_block ob_unaligned_block __attribute__((aligned(1), may_alias));

/* The keys of the rounds, in the order of their use. */
struct ob_rounds {
	const ob_unaligned_block *keys;
	unsigned int last;
	bool encrypt;
};

static struct ob_rounds ob_rounds(const struct crypto_aes_ctx *key, bool encrypt)
{
	return (struct ob_rounds) {
		.keys = (const ob_unaligned_block *)(encrypt ? key->key_enc : key->key_dec),
		.last = 6 + key->key_length / 4,
		.encrypt = encrypt,
	};
}

/* Callers pass constants for `lanes` and `encrypt`: the compiler unrolls the loops over lanes. */
static __always_inline void ob_crypt(const struct ob_rounds *rounds, ob_block *blocks,
				     unsigned int lanes, bool encrypt)
{
	unsigned int round, i;
	ob_block key = rounds->keys[0];

#pragma GCC unroll 8
	for (i = 0; i < lanes; i++)
		blocks[i] ^= key;
	for (round = 1; round < rounds->last; round++) {
		key = rounds->keys[round];
#pragma GCC unroll 8
		for (i = 0; i < lanes; i++)
			blocks[i] = encrypt ? __builtin_ia32_aesenc128(blocks[i], key) :
					      __builtin_ia32_aesdec128(blocks[i], key);
	}
	key = rounds->keys[round];
#pragma GCC unroll 8
	for (i = 0; i < lanes; i++)
		blocks[i] = encrypt ? __builtin_ia32_aesenclast128(blocks[i], key) :
				      __builtin_ia32_aesdeclast128(blocks[i], key);
}

static __always_inline void ob_crypt_lanes(const struct ob_rounds *rounds, ob_block *blocks)
{
	if (rounds->encrypt)
		ob_crypt(rounds, blocks, OB_LANES, true);
	else
		ob_crypt(rounds, blocks, OB_LANES, false);
}

static ob_block ob_crypt_one(const struct ob_rounds *rounds, ob_block block)
{
	if (rounds->encrypt)
		ob_crypt(rounds, &block, 1, true);
	else
		ob_crypt(rounds, &block, 1, false);
	return block;
}

static ob_block ob_block_load(const void *from)
{
	return *(const ob_unaligned_block *)from;
}

static void ob_block_store(void *to, ob_block block)
{
	*(ob_unaligned_block *)to = block;
}

/* The cipher: one block at a time. */

static int ob_aes_setkey(struct crypto_tfm *tfm, const u8 *key, unsigned int length)
{
	return aes_expandkey(crypto_tfm_ctx(tfm), key, length);
}

static void ob_aes_encrypt(struct crypto_tfm *tfm, u8 *to, const u8 *from)
{
	struct ob_rounds rounds = ob_rounds(crypto_tfm_ctx(tfm), true);

	ob_block_store(to, ob_crypt_one(&rounds, ob_block_load(from)));
}

static void ob_aes_decrypt(struct crypto_tfm *tfm, u8 *to, const u8 *from)
{
	struct ob_rounds rounds = ob_rounds(crypto_tfm_ctx(tfm), false);

	ob_block_store(to, ob_crypt_one(&rounds, ob_block_load(from)));
}

static struct crypto_alg ob_aes = {
	.cra_name = "aes",
	.cra_driver_name = "aes-outboard",
	.cra_priority = OB_PRIORITY,
	.cra_flags = CRYPTO_ALG_TYPE_CIPHER,
	.cra_blocksize = AES_BLOCK_SIZE,
	.cra_ctxsize = sizeof(struct crypto_aes_ctx),
	.cra_module = THIS_MODULE,
	.cra_cipher = {
		.cia_min_keysize = AES_MIN_KEY_SIZE,
		.cia_max_keysize = AES_MAX_KEY_SIZE,
		.cia_setkey = ob_aes_setkey,
		.cia_encrypt = ob_aes_encrypt,
		.cia_decrypt = ob_aes_decrypt,
	},
};

/* CBC: each block is mixed with the encrypted one before it. */

static int ob_cbc_setkey(struct crypto_lskcipher *tfm, const u8 *key, unsigned int length)
{
	return aes_expandkey(crypto_lskcipher_ctx(tfm), key, length);
}

/* Bytes that make no whole block are an error, unless the caller has more to come. */
static int ob_rest(unsigned int length, u32 flags)
{
	return length && flags & CRYPTO_LSKCIPHER_FLAG_FINAL ? -EINVAL : length;
}

static int ob_cbc_encrypt(struct crypto_lskcipher *tfm, const u8 *from, u8 *to,
			  unsigned int length, u8 *iv, u32 flags)
{
	struct ob_rounds rounds = ob_rounds(crypto_lskcipher_ctx(tfm), true);
	ob_block before = ob_block_load(iv);

	for (; length >= AES_BLOCK_SIZE; length -= AES_BLOCK_SIZE) {
		before = ob_crypt_one(&rounds, ob_block_load(from) ^ before);
		ob_block_store(to, before);
		from += AES_BLOCK_SIZE;
		to += AES_BLOCK_SIZE;
	}
	ob_block_store(iv, before);
	return ob_rest(length, flags);
}

/*
 * Decrypts OB_LANES blocks. It reads all of them before it writes one, so `from` may be `to`.
 * Returns the last encrypted block.
 */
static ob_block ob_cbc_decrypt_lanes(const struct ob_rounds *rounds, const u8 *from, u8 *to,
				     ob_block before)
{
	ob_block encrypted[OB_LANES], blocks[OB_LANES];
	unsigned int i;

	for (i = 0; i < OB_LANES; i++)
		encrypted[i] = blocks[i] = ob_block_load(from + i * AES_BLOCK_SIZE);
	ob_crypt(rounds, blocks, OB_LANES, false);
	for (i = 0; i < OB_LANES; i++)
		ob_block_store(to + i * AES_BLOCK_SIZE,
			       blocks[i] ^ (i ? encrypted[i - 1] : before));
	return encrypted[OB_LANES - 1];
}

static int ob_cbc_decrypt(struct crypto_lskcipher *tfm, const u8 *from, u8 *to,
			  unsigned int length, u8 *iv, u32 flags)
{
	struct ob_rounds rounds = ob_rounds(crypto_lskcipher_ctx(tfm), false);
	ob_block before = ob_block_load(iv), encrypted;

	for (; length >= OB_LANES * AES_BLOCK_SIZE; length -= OB_LANES * AES_BLOCK_SIZE) {
		before = ob_cbc_decrypt_lanes(&rounds, from, to, before);
		from += OB_LANES * AES_BLOCK_SIZE;
		to += OB_LANES * AES_BLOCK_SIZE;
	}
	for (; length >= AES_BLOCK_SIZE; length -= AES_BLOCK_SIZE) {
		encrypted = ob_block_load(from);
		ob_block_store(to, ob_crypt_one(&rounds, encrypted) ^ before);
		before = encrypted;
		from += AES_BLOCK_SIZE;
		to += AES_BLOCK_SIZE;
	}
	ob_block_store(iv, before);
	return ob_rest(length, flags);
}

static struct lskcipher_alg ob_cbc = {
	.setkey = ob_cbc_setkey,
	.encrypt = ob_cbc_encrypt,
	.decrypt = ob_cbc_decrypt,
	.co = {
		.min_keysize = AES_MIN_KEY_SIZE,
		.max_keysize = AES_MAX_KEY_SIZE,
		.ivsize = AES_BLOCK_SIZE,
		.base = {
			.cra_name = "cbc(aes)",
			.cra_driver_name = "cbc-aes-outboard",
			.cra_priority = OB_PRIORITY,
			.cra_blocksize = AES_BLOCK_SIZE,
			.cra_ctxsize = sizeof(struct crypto_aes_ctx),
			.cra_module = THIS_MODULE,
		},
	},
};

/* XTS (IEEE 1619): each block has a tweak, which is twice the tweak of the block before it. */

struct ob_xts_key {
	struct crypto_aes_ctx data, tweak;
};

static int ob_xts_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int length)
{
	struct ob_xts_key *keys = crypto_skcipher_ctx(tfm);

	return xts_verify_key(tfm, key, length) ?:
	       aes_expandkey(&keys->data, key, length / 2) ?:
	       aes_expandkey(&keys->tweak, key + length / 2, length / 2);
}

/*
 * Doubles in GF(2^128). The top bit of the lower half goes to the upper half; the top bit of the
 * upper half stands for the polynomial, which goes to the lower half.
 */
static ob_block ob_xts_double(ob_block tweak)
{
	const ob_words carries = { 0x87, 0, 1, 0 };
	ob_words words = (ob_words)tweak;
	ob_words tops = __builtin_shufflevector(words, words, 3, 0, 1, 2) >> 31;

	return (tweak + tweak) ^ (ob_block)(tops & carries);
}

static ob_block ob_xts_lanes(const struct ob_rounds *rounds, const u8 *from, u8 *to, ob_block tweak)
{
	ob_block tweaks[OB_LANES], blocks[OB_LANES];
	unsigned int i;

	for (i = 0; i < OB_LANES; i++) {
		tweaks[i] = tweak;
		blocks[i] = ob_block_load(from + i * AES_BLOCK_SIZE) ^ tweak;
		tweak = ob_xts_double(tweak);
	}
	ob_crypt_lanes(rounds, blocks);
	for (i = 0; i < OB_LANES; i++)
		ob_block_store(to + i * AES_BLOCK_SIZE, blocks[i] ^ tweaks[i]);
	return tweak;
}

/* Whole blocks. Returns the tweak of the block that follows. */
static ob_block ob_xts_blocks(const struct ob_rounds *rounds, const u8 *from, u8 *to,
			      unsigned int length, ob_block tweak)
{
	for (; length >= OB_LANES * AES_BLOCK_SIZE; length -= OB_LANES * AES_BLOCK_SIZE) {
		tweak = ob_xts_lanes(rounds, from, to, tweak);
		from += OB_LANES * AES_BLOCK_SIZE;
		to += OB_LANES * AES_BLOCK_SIZE;
	}
	for (; length >= AES_BLOCK_SIZE; length -= AES_BLOCK_SIZE) {
		ob_block_store(to, ob_crypt_one(rounds, ob_block_load(from) ^ tweak) ^ tweak);
		tweak = ob_xts_double(tweak);
		from += AES_BLOCK_SIZE;
		to += AES_BLOCK_SIZE;
	}
	return tweak;
}

/* All of a request that has whole blocks only. */
static int ob_xts_walk(const struct ob_rounds *rounds, struct skcipher_request *request,
		       ob_block *tweak)
{
	struct skcipher_walk walk;
	int error = skcipher_walk_virt(&walk, request, false);

	while (walk.nbytes) {
		unsigned int length = round_down(walk.nbytes, AES_BLOCK_SIZE);

		*tweak = ob_xts_blocks(rounds, walk.src.virt.addr, walk.dst.virt.addr, length,
				       *tweak);
		error = skcipher_walk_done(&walk, walk.nbytes - length);
	}
	return error;
}

/*
 * Ciphertext stealing, for the last whole block and the `tail` bytes behind it. These bytes and the
 * start of the encrypted block change places. The rest of that block fills the bytes up to a block
 * of their own. Decryption uses the two tweaks in reverse order.
 */
static void ob_xts_steal(const struct ob_rounds *rounds, struct skcipher_request *request,
			 unsigned int tail, ob_block tweak)
{
	unsigned int start = request->cryptlen - tail - AES_BLOCK_SIZE;
	ob_block next = ob_xts_double(tweak);
	ob_block first = rounds->encrypt ? tweak : next, second = rounds->encrypt ? next : tweak;
	u8 bytes[2 * AES_BLOCK_SIZE], stolen[AES_BLOCK_SIZE];

	scatterwalk_map_and_copy(bytes, request->src, start, AES_BLOCK_SIZE + tail, 0);
	ob_block_store(stolen, ob_crypt_one(rounds, ob_block_load(bytes) ^ first) ^ first);
	memcpy(bytes, bytes + AES_BLOCK_SIZE, tail);
	memcpy(bytes + tail, stolen + tail, AES_BLOCK_SIZE - tail);
	memcpy(bytes + AES_BLOCK_SIZE, stolen, tail);
	ob_block_store(bytes, ob_crypt_one(rounds, ob_block_load(bytes) ^ second) ^ second);
	scatterwalk_map_and_copy(bytes, request->dst, start, AES_BLOCK_SIZE + tail, 1);
}

static int ob_xts_crypt(struct skcipher_request *request, bool encrypt)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(request);
	const struct ob_xts_key *keys = crypto_skcipher_ctx(tfm);
	struct ob_rounds rounds = ob_rounds(&keys->data, encrypt);
	struct ob_rounds once = ob_rounds(&keys->tweak, true);
	unsigned int tail = request->cryptlen % AES_BLOCK_SIZE;
	ob_block tweak = ob_crypt_one(&once, ob_block_load(request->iv));
	struct skcipher_request whole;
	int error = 0;

	if (request->cryptlen < AES_BLOCK_SIZE)
		return -EINVAL;
	if (!tail)
		return ob_xts_walk(&rounds, request, &tweak);
	skcipher_request_set_tfm(&whole, tfm);
	skcipher_request_set_callback(&whole, skcipher_request_flags(request), NULL, NULL);
	skcipher_request_set_crypt(&whole, request->src, request->dst,
				   request->cryptlen - tail - AES_BLOCK_SIZE, request->iv);
	if (whole.cryptlen)
		error = ob_xts_walk(&rounds, &whole, &tweak);
	if (!error)
		ob_xts_steal(&rounds, request, tail, tweak);
	return error;
}

static int ob_xts_encrypt(struct skcipher_request *request)
{
	return ob_xts_crypt(request, true);
}

static int ob_xts_decrypt(struct skcipher_request *request)
{
	return ob_xts_crypt(request, false);
}

static struct skcipher_alg ob_xts = {
	.setkey = ob_xts_setkey,
	.encrypt = ob_xts_encrypt,
	.decrypt = ob_xts_decrypt,
	.min_keysize = 2 * AES_MIN_KEY_SIZE,
	.max_keysize = 2 * AES_MAX_KEY_SIZE,
	.ivsize = AES_BLOCK_SIZE,
	.base = {
		.cra_name = "xts(aes)",
		.cra_driver_name = "xts-aes-outboard",
		.cra_priority = OB_PRIORITY,
		.cra_blocksize = AES_BLOCK_SIZE,
		.cra_ctxsize = sizeof(struct ob_xts_key),
		.cra_module = THIS_MODULE,
	},
};

static int __init ob_aes_init(void)
{
	int error;

	if (!ob_cpuid_has(OB_CPUID_AES))
		return -ENODEV;
	error = crypto_register_alg(&ob_aes);
	if (error)
		return error;
	error = crypto_register_lskcipher(&ob_cbc);
	if (error)
		goto no_cbc;
	error = crypto_register_skcipher(&ob_xts);
	if (error)
		goto no_xts;
	return 0;

no_xts:
	crypto_unregister_lskcipher(&ob_cbc);
no_cbc:
	crypto_unregister_alg(&ob_aes);
	return error;
}
module_init(ob_aes_init);

static void __exit ob_aes_exit(void)
{
	crypto_unregister_skcipher(&ob_xts);
	crypto_unregister_lskcipher(&ob_cbc);
	crypto_unregister_alg(&ob_aes);
}
module_exit(ob_aes_exit);

MODULE_DESCRIPTION("AES, CBC and XTS with the processor's instructions");
MODULE_LICENSE("GPL");
MODULE_ALIAS_CRYPTO("aes");
MODULE_ALIAS_CRYPTO("cbc(aes)");
MODULE_ALIAS_CRYPTO("xts(aes)");
