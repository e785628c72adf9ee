# SPDX-License-Identifier: GPL-2.0-only
"""Encrypted volumes by cryptsetup, which needs no device mapper of the host for what is here."""

from support import host

# A key is derived at once.
FAST = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")


def make(path: str, key: str, size: int, *options: str) -> str:
    """An encrypted volume of about this size, with nothing in it. Returns the path."""
    host.sparse_file(path, size + (16 << 20))
    host.run("cryptsetup", "-q", "luksFormat", "--type", "luks2", "--key-file", key, *FAST, *options, path)
    return path


def decrypted(image: str, key: str) -> str:
    """Makes a volume of LUKS2 what is in it. Returns the path."""
    header = f"{image}.header"
    host.run("cryptsetup", "-q", "reencrypt", "--decrypt", "--force-offline-reencrypt", "--header", header, "--key-file", key, image)
    return image
