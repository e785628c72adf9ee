// SPDX-License-Identifier: GPL-2.0-only
//! How the kernel is run and images are opened, as the engine and the program have it. Other
//! programs have [`crate::Options`], whose fields nobody sees.

use crate::container_image::ContainerImage;
use crate::containers::ImageOptions;
use outboard::{Inherited, Secret};
use outboard_sandbox::tool::Confinement;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// How the kernel is run and images are opened. The program fills in all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Type of the file system, as in "ext4"; `None`: a probe finds it.
    pub kind: Option<String>,
    /// No byte of an image changes.
    pub read_only: bool,
    /// Image files are raw disks, whatever format they seem to have.
    pub raw: bool,
    /// Files outside of its own directory that a qcow2 image may be based on.
    pub backing: Vec<PathBuf>,
    /// The file whose contents are the key of encrypted volumes; "-": standard input. `None`: the
    /// user enters a passphrase on the terminal.
    pub key_file: Option<PathBuf>,
    /// The key itself, which goes before a key file.
    pub key: Option<Secret>,
    /// Only data that this root hash of dm-verity vouches for is opened.
    pub verity: Option<RootHash>,
    /// The offset of the hashes in the device that they belong to, in bytes. `None`: a search after
    /// the file system and in other partitions finds them.
    pub verity_offset: Option<u64>,
    /// The algorithm of dm-integrity's tags, as in "sha256"; `None`: crc32c.
    pub integrity: Option<String>,
    /// Images of containers that are ready.
    pub container_images: Vec<ContainerImage>,
    /// Further disks of the same machine, for RAIDs, volume groups and file systems on several
    /// disks.
    pub disks: Vec<PathBuf>,
    /// Virtual CPUs of the kernel, 1 to 64; `None`: as many as the host has, at most 4.
    pub vcpus: Option<u32>,
    /// Most bytes of memory that the kernel may use; `None`: a quarter of the host's, or half of
    /// what limits of cgroups leave, at most 2 GiB except for mount.
    pub memory: Option<u64>,
    /// Components in .ko files that the kernel loads first.
    pub components: Vec<PathBuf>,
    /// The network interface by which servers are reached, as in "tap:tap0,ip=10.0.0.2/24"; `None`:
    /// "user".
    pub net: Option<String>,
    /// Seconds that a server may take for a request; `None`: 30.
    pub timeout: Option<u64>,
    /// The program is not sandboxed: an image that exploits a mistake in the kernel's code gets all
    /// rights of the user.
    pub no_sandbox: bool,
    /// Paths are names of files: no character in them is a wildcard.
    pub literal: bool,
    /// 1: the kernel's messages are shown; 2: all of them.
    pub verbose: u8,
    /// Files that the process that started this one left open for it.
    pub inherited: Inherited,
    /// A panic ends a volume's kernel, not the process.
    pub contain_panic: bool,
    /// The directory of kernel snapshots of a volume; the program has its own.
    pub snapshots: Option<PathBuf>,
}

impl Options {
    /// How images are opened.
    pub(crate) fn image_options(&self) -> ImageOptions {
        ImageOptions {
            raw: self.raw,
            backing: self.backing.clone(),
            read_only: self.read_only,
            container_images: self.container_images.clone(),
        }
    }

    /// Whether tools are sandboxed.
    pub fn confinement(&self) -> Confinement {
        if self.no_sandbox {
            Confinement::Unconfined
        } else {
            Confinement::Sandboxed
        }
    }
}

/// A root hash of dm-verity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootHash(
    /// The bytes of the hash.
    pub Vec<u8>,
);

impl Display for RootHash {
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        formatter.write_str(&hex::encode(&self.0))
    }
}
