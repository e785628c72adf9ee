// SPDX-License-Identifier: GPL-2.0-only
//! How the kernel is run and images are opened.

use crate::containers::ImageOptions;
use outboard::{Inherited, Secret};
use outboard_sandbox::tool::Confinement;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

/// How the kernel is run and images are opened.
///
/// ```
/// let options = outboard_volume::Options::new().key_file("key").memory(256 << 20);
/// ```
// The fields are the program's, which fills in all of them; other programs have the methods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Type of the file system, as in "ext4"; `None`: a probe finds it.
    #[doc(hidden)]
    pub kind: Option<String>,
    /// No byte of an image changes.
    #[doc(hidden)]
    pub read_only: bool,
    /// Image files are raw disks, whatever format they seem to have.
    #[doc(hidden)]
    pub raw: bool,
    /// Files outside of its own directory that a qcow2 image may be based on.
    #[doc(hidden)]
    pub backing: Vec<PathBuf>,
    /// The file whose contents are the key of encrypted volumes; "-": standard input. `None`: the
    /// user enters a passphrase on the terminal.
    #[doc(hidden)]
    pub key_file: Option<PathBuf>,
    /// The key itself, which goes before a key file.
    #[doc(hidden)]
    pub key: Option<Secret>,
    /// Only data that this root hash of dm-verity vouches for is opened.
    #[doc(hidden)]
    pub verity: Option<RootHash>,
    /// Where the hashes begin in the device that they are of, in bytes. `None`: a search after the
    /// file system and in other partitions finds them.
    #[doc(hidden)]
    pub verity_offset: Option<u64>,
    /// The algorithm of dm-integrity's tags, as in "sha256"; `None`: crc32c.
    #[doc(hidden)]
    pub integrity: Option<String>,
    /// Further disks of the same machine, for RAIDs, volume groups and file systems on several
    /// disks.
    #[doc(hidden)]
    pub disks: Vec<PathBuf>,
    /// Virtual CPUs of the kernel, 1 to 64; `None`: as many as the host has, at most 4.
    #[doc(hidden)]
    pub vcpus: Option<u32>,
    /// Most bytes of memory that the kernel may use; `None`: a quarter of the host's, or half of
    /// what limits of cgroups leave, at most 2 GiB except for mount.
    #[doc(hidden)]
    pub memory: Option<u64>,
    /// Components in .ko files that the kernel loads first.
    #[doc(hidden)]
    pub components: Vec<PathBuf>,
    /// The network interface by which servers are reached, as in "tap:tap0,ip=10.0.0.2/24"; `None`:
    /// "user".
    #[doc(hidden)]
    pub net: Option<String>,
    /// Seconds that a server may take for a request; `None`: 30.
    #[doc(hidden)]
    pub timeout: Option<u64>,
    /// The program is not sandboxed: an image that exploits a mistake in the kernel's code gets all
    /// rights of the user.
    #[doc(hidden)]
    pub no_sandbox: bool,
    /// Paths are names of files: no character in them is a wildcard.
    #[doc(hidden)]
    pub literal: bool,
    /// 1: the kernel's messages are shown; 2: all of them.
    #[doc(hidden)]
    pub verbose: u8,
    /// Files that the process that started this one left open for it.
    #[doc(hidden)]
    pub inherited: Inherited,
    /// A panic ends a volume's kernel, not the process.
    #[doc(hidden)]
    pub contain_panic: bool,
    /// The directory of kernel snapshots of a volume; the program has its own.
    #[doc(hidden)]
    pub snapshots: Option<PathBuf>,
}

/// For [`Volume::open`](crate::Volume::open).
impl Options {
    /// The default: nothing is given, everything is found out.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file whose contents are the key of encrypted volumes: all bytes, with newlines.
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // "-" is standard input to the program alone.
        self.key_file = Some(if path.as_os_str() == "-" {
            Path::new(".").join(path)
        } else {
            path
        });
        self
    }

    /// The key of encrypted volumes. It is copied into locked memory that core dumps leave out and
    /// that is wiped when the last clone is dropped.
    pub fn key(mut self, key: &[u8]) -> Self {
        self.key = Some(Secret::from(key));
        self
    }

    /// Image files are raw disks, whatever format they seem to have.
    pub fn raw(mut self, yes: bool) -> Self {
        self.raw = yes;
        self
    }

    /// A file outside of its own directory that a qcow2 image may be based on. For several files,
    /// call it several times.
    pub fn backing(mut self, path: impl Into<PathBuf>) -> Self {
        self.backing.push(path.into());
        self
    }

    /// A further disk of the same machine, for RAIDs, volume groups and file systems on several
    /// disks. For several disks, call it several times.
    pub fn disk(mut self, path: impl Into<PathBuf>) -> Self {
        self.disks.push(path.into());
        self
    }

    /// The type of the file system, as in "ext4". Default: a probe finds it.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Virtual CPUs of the kernel, 1 to 64. Default: as many as the host has, at most 4.
    pub fn vcpus(mut self, count: u32) -> Self {
        self.vcpus = Some(count);
        self
    }

    /// Most bytes of memory that the kernel may use. Default: a quarter of the host's, or half of
    /// what the memory limits of cgroups leave, at most 2 GiB.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Only data that this root hash of dm-verity vouches for is opened.
    pub fn verity(mut self, hash: RootHash) -> Self {
        self.verity = Some(hash);
        self
    }

    /// Where the hashes of dm-verity begin in the device that they are of, in bytes. Default: a
    /// search after the file system and in other partitions finds them.
    pub fn verity_offset(mut self, bytes: u64) -> Self {
        self.verity_offset = Some(bytes);
        self
    }

    /// The algorithm of dm-integrity's tags, as in "sha256". Default: crc32c.
    pub fn integrity(mut self, algorithm: impl Into<String>) -> Self {
        self.integrity = Some(algorithm.into());
        self
    }

    /// A component in a .ko file that the kernel loads first. For several components, call it
    /// several times.
    pub fn component(mut self, file: impl Into<PathBuf>) -> Self {
        self.components.push(file.into());
        self
    }

    /// Whether a panic of the kernel ends this volume alone. Its calls then fail with
    /// [`ErrorKind::Crashed`](crate::ErrorKind::Crashed), and threads that are in a call stay there
    /// for ever. Default: a panic ends the process.
    pub fn contain_panic(mut self, yes: bool) -> Self {
        self.contain_panic = yes;
        self
    }

    /// A directory of kernel snapshots, which is the user's alone. The volume's kernel starts from
    /// one that an earlier process left there, or boots and leaves one. Default: it boots each
    /// time. Where a snapshot cannot be used or saved, that is no error.
    pub fn snapshots(mut self, directory: impl Into<PathBuf>) -> Self {
        self.snapshots = Some(directory.into());
        self
    }

    /// How images are opened.
    pub(crate) fn image_options(&self) -> ImageOptions {
        ImageOptions {
            raw: self.raw,
            backing: self.backing.clone(),
            read_only: self.read_only,
        }
    }

    /// Whether tools are sandboxed.
    #[doc(hidden)]
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
