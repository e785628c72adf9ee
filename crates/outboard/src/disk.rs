// SPDX-License-Identifier: GPL-2.0-only
//! Disks: files and block devices of the host, and what the program serves, that the kernel sees as
//! block devices.

use crate::device::{Backing, BlockDevice};
use crate::kernel::Kernel;
use crate::kernel_files::read_text;
use crate::Fd;
use outboard_sys::kernel::DiskConfig;
use outboard_sys::{libc, Storage};
use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a disk is added.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskOptions {
    config: DiskConfig,
}

impl DiskOptions {
    /// For reading only: the file's bytes do not change, whatever is mounted how.
    pub fn read_only() -> Self {
        Self {
            config: DiskConfig {
                read_only: true,
                ..DiskConfig::default()
            },
        }
    }

    /// For reading and writing.
    pub fn read_write() -> Self {
        Self::default()
    }

    /// Does not lock the file: somebody else may change it meanwhile, with all that follows.
    pub fn without_lock(mut self) -> Self {
        self.config.no_lock = true;
        self
    }

    /// 512 or 4096 bytes. Default: the device's own, 512 for a file.
    pub fn sector_size(mut self, bytes: u32) -> Self {
        self.config.sector_size = bytes;
        self
    }
}

/// Most partitions of a disk, as in Linux.
const MOST_PARTITIONS: u32 = 256;

/// A partition as the kernel found it. Start and size are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPartition {
    /// Its number, as in the partition table.
    pub number: u32,
    /// The offset at which it begins on the disk.
    pub start: u64,
    /// Its size.
    pub size: u64,
}

/// A disk of the kernel. It is removed when it and all that uses it is dropped.
#[derive(Clone)]
pub struct KernelDisk {
    shared: Arc<SharedDisk>,
}

/// The way to a disk's bytes.
enum DiskDriver {
    /// The library's own driver, with the number of the disk.
    Library(i32),
    /// A driver of Linux for disks of servers. Dropping the connection removes the disk.
    Server { _connection: Box<dyn Send + Sync> },
}

struct SharedDisk {
    kernel: Kernel,
    route: DiskDriver,
    name: String,
    read_only: bool,
}

impl Drop for SharedDisk {
    fn drop(&mut self) {
        if let DiskDriver::Library(number) = self.route {
            // Busy or gone after a halt: nothing is lost, the kernel removes it at its end.
            let _ = self.kernel.instance().remove_disk(number);
        }
    }
}

impl KernelDisk {
    fn add(kernel: Kernel, path: &Path, options: DiskOptions) -> io::Result<Self> {
        let added = kernel.instance().add_disk(path, options.config)?;
        Ok(Self::new(kernel, added, options))
    }

    fn serve(kernel: Kernel, storage: Arc<dyn Storage>, options: DiskOptions) -> io::Result<Self> {
        let added = kernel.instance().serve_disk(storage, options.config)?;
        Ok(Self::new(kernel, added, options))
    }

    fn new(kernel: Kernel, (number, name): (i32, String), options: DiskOptions) -> Self {
        Self {
            shared: Arc::new(SharedDisk {
                kernel,
                route: DiskDriver::Library(number),
                name,
                read_only: options.config.read_only,
            }),
        }
    }

    pub(crate) fn connected(
        kernel: Kernel,
        connection: Box<dyn Send + Sync>,
        name: String,
        read_only: bool,
    ) -> Self {
        Self {
            shared: Arc::new(SharedDisk {
                kernel,
                route: DiskDriver::Server {
                    _connection: connection,
                },
                name,
                read_only,
            }),
        }
    }

    fn kernel(&self) -> &Kernel {
        &self.shared.kernel
    }

    /// The kernel's name for it, as in "vda".
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The partitions, by number.
    pub fn partitions(&self) -> io::Result<Vec<DiskPartition>> {
        let directory = format!("/sys/class/block/{}", self.name());
        let names = Fd::working_directory(self.kernel().system()).open_at(
            &CString::new(directory)?,
            libc::O_RDONLY | libc::O_DIRECTORY,
            0,
        )?;
        let mut partitions = Vec::new();
        let mut buffer = vec![0u8; 16384];
        while let Some(entries) = names.entries(&mut buffer)? {
            for entry in entries {
                let name = entry.name.to_string_lossy();
                if let Some(number) = self.partition_number(&name) {
                    partitions.push(DiskPartition {
                        number,
                        start: self.attribute(&name, "start")?.saturating_mul(512),
                        size: self.attribute(&name, "size")?.saturating_mul(512),
                    });
                }
            }
        }
        partitions.sort_by_key(|partition| partition.number);
        Ok(partitions)
    }

    /// "vda3" is 3 of "vda"; where a disk's name ends in a digit, "p" comes between.
    fn partition_number(&self, name: &str) -> Option<u32> {
        let rest = name.strip_prefix(self.name())?;
        rest.strip_prefix('p').unwrap_or(rest).parse().ok()
    }

    fn attribute(&self, partition: &str, attribute: &str) -> io::Result<u64> {
        let path = format!("/sys/class/block/{}/{partition}/{attribute}", self.name());
        let text = read_text(self.kernel().system(), &CString::new(path)?)?;
        text.trim()
            .parse()
            .map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The block device of a partition that the caller has found in the table. The kernel learns of
    /// it where it has not found the same one: it looks for tables with sectors of the disk's own
    /// size only, and takes no copy of a damaged table. ENXIO: it begins behind the disk's end;
    /// EINVAL: it does not begin and end between sectors of the disk; EBUSY: it would overlap
    /// another one in use.
    pub fn partition(&self, wanted: DiskPartition) -> io::Result<BlockDevice> {
        let DiskPartition { number, start, .. } = wanted;
        let disk = self.device(None)?.open()?;
        let room = disk.seek(0, libc::SEEK_END)?.checked_sub(start);
        let size = room.unwrap_or(0).min(wanted.size);
        if size == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENXIO));
        }
        let known = disk.resize_partition(number, start, size);
        match known.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => {}
            // It begins where it should, and shares bytes with another one.
            Err(Some(libc::EBUSY)) if self.device(Some(number))?.size()? == size => {}
            Err(Some(libc::ENXIO | libc::EINVAL | libc::EBUSY)) => {
                replace_partition(&disk, number, start, size)?;
            }
            Err(_) => known?,
        }
        self.device(Some(number))
    }

    /// The block device of the whole disk, or of a partition. ENXIO: no such partition.
    pub fn device(&self, partition: Option<u32>) -> io::Result<BlockDevice> {
        let name = match partition {
            None => self.name().to_owned(),
            Some(number) if self.name().ends_with(|c: char| c.is_ascii_digit()) => {
                format!("{}p{number}", self.name())
            }
            Some(number) => format!("{}{number}", self.name()),
        };
        BlockDevice::new(Box::new(self.clone()), name)
    }
}

/// Adds a partition in the place of what the kernel has found on a disk.
fn replace_partition(disk: &Fd, number: u32, start: u64, size: u64) -> io::Result<()> {
    let sector = disk.sector_size()?;
    if start % sector != 0 || size % sector != 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let _ = disk.delete_partition(number);
    match disk.add_partition(number, start, size) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            // The kernel has read something else as a table. Partitions in use stay.
            for other in 1..=MOST_PARTITIONS {
                let _ = disk.delete_partition(other);
            }
            disk.add_partition(number, start, size)
        }
        other => other,
    }
}

impl Backing for KernelDisk {
    fn kernel(&self) -> &Kernel {
        &self.shared.kernel
    }

    fn is_read_only(&self) -> bool {
        self.shared.read_only
    }
}

impl Kernel {
    /// Adds a disk: a regular file or a block device of the host. `ResourceBusy`
    /// (EBUSY) if somebody else uses it, EROFS if it can only be read.
    pub fn add_disk(&self, path: &Path, options: DiskOptions) -> io::Result<KernelDisk> {
        KernelDisk::add(self.clone(), path, options)
    }

    /// Adds a disk whose requests `storage` carries out. It has no lock of its own. `storage` is
    /// dropped when the disk is removed, or the kernel halts.
    pub fn add_served_disk(
        &self,
        storage: Arc<dyn Storage>,
        options: DiskOptions,
    ) -> io::Result<KernelDisk> {
        KernelDisk::serve(self.clone(), storage, options)
    }
}
