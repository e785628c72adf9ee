// SPDX-License-Identifier: GPL-2.0-only
//! How programs open a volume: [`Options`].

use crate::options::{self, RootHash};
use outboard::Secret;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the kernel is run and images are opened, for [`Volume::open`](crate::Volume::open).
///
/// ```
/// let options = outboard_volume::Options::new().key_file("key").memory(256 << 20);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    inner: options::Options,
}

impl Options {
    /// The default: nothing is given, everything is found out.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file whose contents are the key of encrypted volumes: all bytes, with newlines. Its
    /// first line is the password of an SMB share.
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // "-" is standard input to the program alone.
        self.inner.key_file = Some(if path.as_os_str() == "-" {
            Path::new(".").join(path)
        } else {
            path
        });
        self
    }

    /// The key of encrypted volumes, or the password of an SMB share. It is copied into locked
    /// memory that core dumps leave out and that is wiped when the last clone is dropped.
    pub fn key(mut self, key: &[u8]) -> Self {
        self.inner.key = Some(Secret::from(key));
        self
    }

    /// Image files are raw disks, whatever format they seem to have.
    pub fn raw(mut self, yes: bool) -> Self {
        self.inner.raw = yes;
        self
    }

    /// A file outside of its own directory that a qcow2 image may be based on. For several files,
    /// call it several times.
    pub fn backing(mut self, path: impl Into<PathBuf>) -> Self {
        self.inner.backing.push(path.into());
        self
    }

    /// A further disk of the same machine, for RAIDs, volume groups and file systems on several
    /// disks. For several disks, call it several times.
    pub fn disk(mut self, path: impl Into<PathBuf>) -> Self {
        self.inner.disks.push(path.into());
        self
    }

    /// The type of the file system, as in "ext4". Default: a probe finds it.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.inner.kind = Some(kind.into());
        self
    }

    /// Virtual CPUs of the kernel, 1 to 64. Default: as many as the host has, at most 4.
    pub fn vcpus(mut self, count: u32) -> Self {
        self.inner.vcpus = Some(count);
        self
    }

    /// Most bytes of memory that the kernel may use. Default: a quarter of the host's, or half of
    /// what the memory limits of cgroups leave, at most 2 GiB.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.inner.memory = Some(bytes);
        self
    }

    /// Only data that this root hash of dm-verity vouches for is opened.
    pub fn verity(mut self, hash: RootHash) -> Self {
        self.inner.verity = Some(hash);
        self
    }

    /// The offset of dm-verity's hashes in the device that they belong to, in bytes. Default: a
    /// search after the file system and in other partitions finds them.
    pub fn verity_offset(mut self, bytes: u64) -> Self {
        self.inner.verity_offset = Some(bytes);
        self
    }

    /// The algorithm of dm-integrity's tags, as in "sha256". Default: crc32c.
    pub fn integrity(mut self, algorithm: impl Into<String>) -> Self {
        self.inner.integrity = Some(algorithm.into());
        self
    }

    /// A component in a .ko file that the kernel loads first. For several components, call it
    /// several times.
    pub fn component(mut self, file: impl Into<PathBuf>) -> Self {
        self.inner.components.push(file.into());
        self
    }

    /// Whether a panic of the kernel ends this volume alone. Its calls then fail with
    /// [`ErrorKind::Crashed`](crate::ErrorKind::Crashed), and threads that are in a call stay there
    /// for ever. Default: a panic ends the process.
    pub fn contain_panic(mut self, yes: bool) -> Self {
        self.inner.contain_panic = yes;
        self
    }

    /// How the kernel reaches servers: a network interface as in `outboard::Kernel::add_interface`,
    /// with an address, or `"host"` for the host's own sockets. Default: `"user"`, behind the
    /// host's connections, which needs the host's libslirp0.
    pub fn network(mut self, interface: impl Into<String>) -> Self {
        self.inner.net = Some(interface.into());
        self
    }

    /// How long a server may take for an answer, in whole seconds: a fraction counts as one.
    /// Default: 30 seconds. A server that is silent for longer is
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable).
    pub fn server_timeout(mut self, limit: Duration) -> Self {
        let fraction = u64::from(limit.subsec_nanos() > 0);
        self.inner.timeout = Some(limit.as_secs().saturating_add(fraction).max(1));
        self
    }

    /// A directory of kernel snapshots, which is the user's alone. The volume's kernel starts from
    /// one that an earlier process left there, or boots and leaves one. Default: it boots each
    /// time. A snapshot that cannot be used or saved is no error.
    pub fn snapshots(mut self, directory: impl Into<PathBuf>) -> Self {
        self.inner.snapshots = Some(directory.into());
        self
    }
}

impl From<Options> for options::Options {
    fn from(options: Options) -> Self {
        options.inner
    }
}
