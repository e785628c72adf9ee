// SPDX-License-Identifier: GPL-2.0-only
//! Block devices of the kernel: whole disks, partitions, and what is mapped onto others.

use crate::kernel::Kernel;
use crate::{Fd, System};
use outboard_image::{probe, Probe, Source};
use outboard_sys::libc;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// The source of a block device: a disk, a mapping, an array. Dropping the last handle of the
/// device removes it.
pub(crate) trait Backing: Send + Sync {
    fn kernel(&self) -> &Kernel;

    /// Whether it was opened for reading only.
    fn is_read_only(&self) -> bool;

    /// The state that the driver reports; empty if it reports none.
    fn status(&self) -> io::Result<String> {
        Ok(String::new())
    }
}

struct SharedDevice {
    backing: Box<dyn Backing>,
    name: String,
    node: CString,
    number: u64,
}

/// A block device of the kernel.
#[derive(Clone)]
pub struct BlockDevice {
    shared: Arc<SharedDevice>,
}

/// The kernel's own directory of device nodes.
const NODES: &str = "/dev";

/// The number of the device that a node is of. ENXIO: there is none of this name. A look at sysfs
/// instead would have the kernel fill all of sysfs and start all vCPUs.
fn number_of(system: &System, node: &CStr) -> io::Result<u64> {
    let found = Fd::working_directory(system).stat_at(node, 0);
    match found {
        Ok(stat) if stat.st_mode & libc::S_IFMT == libc::S_IFBLK => Ok(stat.st_rdev),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::from_raw_os_error(libc::ENXIO))
        }
        Err(error) => Err(error),
    }
}

impl BlockDevice {
    pub(crate) fn new(backing: Box<dyn Backing>, name: String) -> io::Result<Self> {
        let node = CString::new(format!("{NODES}/{name}"))?;
        let number = number_of(backing.kernel().system(), &node)?;
        let shared = SharedDevice {
            backing,
            name,
            node,
            number,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The kernel's name for it, as in "vda1".
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn device_number(&self) -> u64 {
        self.shared.number
    }

    /// Its number in tables of the device mapper, as in "253:1".
    pub fn number(&self) -> String {
        let number = self.shared.number;
        format!("{}:{}", libc::major(number), libc::minor(number))
    }

    pub(crate) fn node(&self) -> &CStr {
        &self.shared.node
    }

    /// The kernel that it belongs to.
    pub fn kernel(&self) -> &Kernel {
        self.shared.backing.kernel()
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.shared.backing.is_read_only()
    }

    /// The state that the target of a mapping reports; empty for other devices.
    pub fn status(&self) -> io::Result<String> {
        self.shared.backing.status()
    }

    /// Size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        self.open()?.seek(0, libc::SEEK_END)
    }

    /// Bytes of a sector, which is the least that is read or written.
    pub fn sector_size(&self) -> io::Result<u64> {
        self.open()?.sector_size()
    }

    /// Opens the device itself, for reading.
    pub fn open(&self) -> io::Result<Fd> {
        self.open_as(false)
    }

    /// Opens the device itself, for reading, and if `write` says so also for writing: nobody else
    /// may have mounted it then.
    pub fn open_as(&self, write: bool) -> io::Result<Fd> {
        let flags = if write { libc::O_RDWR } else { libc::O_RDONLY };
        Fd::working_directory(self.kernel().system()).open_at(self.node(), flags, 0)
    }

    /// Recognises its contents by the first blocks.
    pub fn probe(&self) -> io::Result<Option<Probe>> {
        probe(&self.source()?)
    }

    /// Its bytes, for parsers.
    pub fn source(&self) -> io::Result<DeviceSource> {
        DeviceSource::new(self.open()?)
    }

    /// Waits until all that was written to it is on stable storage.
    pub fn sync(&self) -> io::Result<()> {
        self.open()?.sync()
    }
}

/// The bytes of a block device.
pub struct DeviceSource {
    fd: Fd,
    size: u64,
    sector_size: u64,
}

impl DeviceSource {
    /// The bytes of an open device.
    fn new(fd: Fd) -> io::Result<Self> {
        Ok(Self {
            size: fd.seek(0, libc::SEEK_END)?,
            sector_size: fd.sector_size()?,
            fd,
        })
    }

    /// The block device that the file system of a file is mounted from. ENODEV: it is mounted from
    /// none.
    pub fn under(file: &Fd) -> io::Result<Self> {
        let number = file.stat()?.st_dev;
        // Not all drivers write through the device's page cache.
        file.sync_file_system()?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let here = Fd::working_directory(file.system());
        let nodes = here.open_at(&CString::new(NODES)?, flags, 0)?;
        let mut buffer = vec![0; 1 << 15];
        while let Some(entries) = nodes.entries(&mut buffer)? {
            for entry in entries {
                let found = nodes.stat_at(entry.name, libc::AT_SYMLINK_NOFOLLOW)?;
                if found.st_mode & libc::S_IFMT == libc::S_IFBLK && found.st_rdev == number {
                    let source = Self::new(nodes.open_at(entry.name, libc::O_RDONLY, 0)?)?;
                    let forget = libc::POSIX_FADV_DONTNEED;
                    let _ = source.fd.advise(0, source.size, forget);
                    return Ok(source);
                }
            }
        }
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }
}

impl Source for DeviceSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn sector_size(&self) -> u64 {
        self.sector_size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fd.read_at(buffer, offset)
    }
}

impl Kernel {
    /// EXDEV: a device is another kernel's, where the same number means another device.
    pub(crate) fn check_devices(&self, devices: &[BlockDevice]) -> io::Result<()> {
        let foreign = |device: &BlockDevice| device.kernel().system() != self.system();
        if devices.iter().any(foreign) {
            Err(io::Error::from_raw_os_error(libc::EXDEV))
        } else {
            Ok(())
        }
    }
}
