# SPDX-License-Identifier: GPL-2.0-only
"""Ciphers: ours (kernel/arch/drivers/aesni.c) against Linux's portable ones, and all by Linux's own
test vectors.
"""

import errno
import os
import re

import pytest

from support import host, modules, program

SOURCE = os.path.join(program.REPOSITORY, "tests", "kernel", "crypto")
VECTORS = os.path.join(program.OUT, "source", "linux", "crypto", "testmgr.c")

HAS_AES = "aes" in host.processor_features()
OURS = {"aes-outboard", "cbc-aes-outboard", "xts-aes-outboard"}


@pytest.mark.skipif(not HAS_AES, reason="the processor has no instructions for AES")
def test_same_as_the_portable_ones(tmp_path):
    modules.build(SOURCE, str(tmp_path))
    run = modules.Run(modules.compile_runner(str(tmp_path)), [
        *modules.needed_by("aes_generic", "xts", "cbc", "ecb"), *modules.needed_by("aesni"),
        str(tmp_path / "aes_test.ko")
    ], timeout=120)
    assert run.result == 0, run.tail
    assert run.log.count("rounds are equal") == 3, run.log


# Algorithms with test vectors that no component of base-suites has.
NOT_MADE = {
    r".*des(3_ede)?\).*": "DES",
    r"(ecb|cbc|ctr|pcbc)\((anubis|arc4|blowfish|fcrypt|khazad|seed|tea|xeta|xtea)\)":
        "a cipher that no disk format here has",
    r".*(paes|psm4).*": "keys in hardware",
    r"(drbg_|ansi_cprng|jitterentropy_rng).*": "random numbers",
    r"(ecdh|ecdsa|ecrdsa|curve25519|dh$|ffdhe|rsa|pkcs1pad).*": "public keys",
    r"(deflate|lz4|lzo|zstd|842).*": "compression",
    r"(hmac\(|authenc\(hmac\()?(md4|md5|sm3|streebog(256|512)|michael_mic)(\).*)?":
        "a hash that no disk format here has",
    r"(cts|kw|vmac64|xcbc)\(.*": "a mode that no disk format here has",
    r"crct10dif|crc64-rocksoft": "sums of the block layer, which the profile base does not have",
}
# Algorithms with test vectors that can be made.
LEAST = {modules.BASE_SUITES: 111, modules.FULL_SUITES: 124}
# By which tcrypt says that it is done, and need not stay.
DONE = -errno.EAGAIN
# A request that meets a running test must be made again, which tcrypt does not: so often is each
# name tried.
TIMES = 4
# Any kind of algorithm (CRYPTO_ALG_LARVAL is of none); essiv must know which.
ANY, SKCIPHER, AEAD = "mask=16", "type=5 mask=14", "type=3 mask=15"
KINDS = {"essiv(cbc(aes),sha256)": SKCIPHER, "essiv(authenc(hmac(sha256),cbc(aes)),sha256)": AEAD}


def not_made(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in NOT_MADE)


def names_with_vectors() -> list:
    with open(VECTORS, encoding="utf-8") as stream:
        return re.findall(r'^\t\t\.alg = "(.*)",$', stream.read(), flags=re.MULTILINE)


def check_vectors(variant, directory, timeout) -> set:
    """Has the kernel make every algorithm of its test manager, which tests each one. Returns the
    names of those that there are.
    """
    names = names_with_vectors()
    run = modules.Run(modules.compile_runner(directory, variant),
                      modules.needed_by("tcrypt", variant=variant), show="/proc/crypto",
                      parameters=[f"alg={name} {KINDS.get(name, ANY)}"
                                  for name in names] * TIMES, timeout=timeout)
    failed = re.findall(r"^.*(?:self-tests for|test failed|WARNING: |BUG: ).*$", run.boot + run.log,
                        flags=re.MULTILINE)
    assert not failed, f"{failed[:5]}\n{run.tail}"
    assert set(run.results) <= {DONE, -errno.ENOENT}, run.tail
    made = {name for name, result in zip(names * TIMES, run.results, strict=True) if result == DONE}
    assert not HAS_AES or OURS <= set(re.findall(r"^driver +: (\S+)$", run.log,
                                                 flags=re.MULTILINE)), run.tail
    untested = re.findall(r"^driver +: (\S+)\n(?:.+\n)*selftest +: (?!passed)", run.log,
                          flags=re.MULTILINE)
    assert not untested, untested
    assert len(made) >= LEAST[variant], sorted(made)
    return made


@pytest.mark.kernel_reports("the test looks at the log")
@pytest.mark.skipif(not modules.is_built(modules.BASE_SUITES),
                    reason="make PROFILE=base SUITES=y library has not been run")
def test_vectors(tmp_path):
    made = check_vectors(modules.BASE_SUITES, str(tmp_path), 300)
    missing = [name for name in names_with_vectors() if name not in made and not not_made(name)]
    assert not missing, f"neither made nor listed as NOT_MADE: {missing}"
    again = sorted(filter(not_made, made))
    assert not again, f"made, though listed as NOT_MADE: {again}"


@pytest.mark.long
@pytest.mark.kernel_reports("the test looks at the log")
@pytest.mark.skipif(not modules.is_built(modules.FULL_SUITES),
                    reason="make SUITES=y library has not been run")
def test_random_data(tmp_path):
    """The kernel of the profile full also compares each algorithm with its generic implementation
    on random data.
    """
    check_vectors(modules.FULL_SUITES, str(tmp_path), 800)
