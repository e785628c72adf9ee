# SPDX-License-Identifier: GPL-2.0-only
"""Encrypted volumes by cryptsetup, which needs no device mapper of the host for what is here."""

import os

from support import host

# Ordinary users have no directory for cryptsetup's locks. Nobody else uses the images of a test.
REENCRYPT = ("cryptsetup", "-q", "reencrypt", "--disable-locks")
# A key is derived at once.
FAST = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")


def make(path: str, key: str, size: int, *options: str) -> str:
    """An encrypted volume of about this size, with nothing in it. Returns the path."""
    host.sparse_file(path, size + (16 << 20))
    host.run("cryptsetup", "-q", "luksFormat", "--type", "luks2", "--key-file", key, *FAST,
             *options, path)
    return path


def encrypt(image: str, key: str, *options: str) -> None:
    """Makes a file system an encrypted volume that holds it."""
    os.truncate(image, os.path.getsize(image) + (32 << 20))
    # It would take a minus for standard input, but not when it asks nothing.
    host.run(*REENCRYPT, "--encrypt", "--type", "luks2",
             "--reduce-device-size", "32M", "--key-file", key, *(options or FAST), image)


def decrypted(image: str, key: str) -> str:
    """Makes a volume of LUKS2 what is in it. Returns the path."""
    header = f"{image}.header"
    host.run(*REENCRYPT, "--decrypt", "--force-offline-reencrypt", "--header",
             header, "--key-file", key, image)
    return image
