// SPDX-License-Identifier: GPL-2.0-only
//! Block devices that the kernel's device mapper makes of others: volumes, encrypted and verified
//! disks.
//!
//! A mapping has a table, whose lines say for one range of the new device each what is to be done
//! with it (the target) and where. It is made without a table, gets one and begins to work with a
//! resume.

use crate::device::{Backing, BlockDevice};
use crate::kernel::Kernel;
use crate::kernel_files::{make_directory, make_home, make_node, HOME};
use crate::Fd;
use outboard_sys::{libc, MapperRequest, Secret, MAPPER_HEADER_SIZE};
use std::ffi::CString;
use std::io;
use zeroize::Zeroize;

/// The device mapper's own number, as linux/miscdevice.h has it.
const CONTROL: (u32, u32) = (10, 236);
/// Of the interface in linux/dm-ioctl.h, and the least one that has all that is used here.
const VERSION: [u32; 3] = [4, 27, 0];
const READ_ONLY: u32 = 1 << 0;
/// Keeps the kernel from leaving copies of a key in its memory.
const SECURE_DATA: u32 = 1 << 15;
/// A device that is still used is removed when it is closed.
const DEFERRED_REMOVE: u32 = 1 << 17;

const FLAGS: usize = 28;
const NUMBER: usize = 40;
const NAME: std::ops::Range<usize> = 48..176;
/// `struct dm_target_spec` without the parameters that follow it.
const TARGET_SIZE: usize = 40;
/// Bytes of a target's type, its NUL included.
const KIND_SIZE: usize = 16;
/// Room for the kernel's answer about the state of all targets.
const STATUS_SIZE: usize = 16384;

/// One line of a mapping table. Its parameters may hold a key: they are wiped when it is dropped.
pub struct Target {
    /// In sectors of 512 bytes.
    pub start: u64,
    /// In sectors of 512 bytes.
    pub size: u64,
    /// The type of the target, as in "linear".
    pub kind: &'static str,
    /// As the type has them. Devices are named by [`BlockDevice::number`].
    pub parameters: String,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.parameters.zeroize();
    }
}

/// A request's header and room for what follows it, which may hold a key.
struct Message(Secret);

impl Message {
    fn new(name: &str, room: usize) -> io::Result<Self> {
        let mut bytes = Secret::zeroed(MAPPER_HEADER_SIZE + room);
        for (index, part) in VERSION.into_iter().enumerate() {
            put32(&mut bytes, 4 * index, part);
        }
        put32(&mut bytes, 16, MAPPER_HEADER_SIZE as u32);
        if name.len() >= NAME.len() || name.is_empty() || name.contains('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        bytes[NAME][..name.len()].copy_from_slice(CString::new(name)?.as_bytes());
        Ok(Self(bytes))
    }

    /// A request with a table.
    fn with_table(name: &str, targets: &[Target]) -> io::Result<Self> {
        let room = targets.iter().map(target_room).sum();
        let mut message = Self::new(name, room)?;
        put32(&mut message.0, 20, targets.len() as u32);
        let mut offset = MAPPER_HEADER_SIZE;
        for target in targets {
            put_target(&mut message.0[offset..], target)?;
            offset += target_room(target);
        }
        Ok(message)
    }

    fn flags(mut self, flags: u32) -> Self {
        put32(&mut self.0, FLAGS, flags);
        self
    }

    fn send(&mut self, control: &Fd, request: MapperRequest) -> io::Result<()> {
        control.map_devices(request, &mut self.0)
    }
}

fn put32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
}

fn put64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
}

fn get32(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    field.copied().map_or(0, u32::from_ne_bytes)
}

/// Bytes of a target with its parameters and their NUL. The next one is aligned.
fn target_room(target: &Target) -> usize {
    (TARGET_SIZE + target.parameters.len() + 1).next_multiple_of(8)
}

fn put_target(bytes: &mut [u8], target: &Target) -> io::Result<()> {
    let (kind, parameters) = (target.kind.as_bytes(), target.parameters.as_bytes());
    if kind.len() >= KIND_SIZE || parameters.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    put64(bytes, 0, target.start);
    put64(bytes, 8, target.size);
    put32(bytes, 20, target_room(target) as u32);
    bytes[24..24 + kind.len()].copy_from_slice(kind);
    bytes[TARGET_SIZE..TARGET_SIZE + parameters.len()].copy_from_slice(parameters);
    Ok(())
}

/// Loads the device mapper and opens its control device.
fn open_control(kernel: &Kernel) -> io::Result<Fd> {
    kernel.load_component("dm-mod", "")?;
    let root = Fd::working_directory(kernel.system());
    make_home(kernel.system())?;
    make_directory(&root, &CString::new(format!("{HOME}/dev/mapper"))?)?;
    kernel.system().wait_for_processors();
    let node = CString::new(format!("{HOME}/dev/mapper/control"))?;
    let number = libc::makedev(CONTROL.0, CONTROL.1);
    make_node(kernel.system(), &node, libc::S_IFCHR, number)?;
    root.open_at(&node, libc::O_RDWR, 0)
}

/// A device in the mapper's care. It goes before what it lies on.
struct Mapping {
    control: Fd,
    kernel: Kernel,
    name: String,
    read_only: bool,
    _below: Vec<BlockDevice>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // After a halt there is nothing left to remove.
        let _ = Message::new(&self.name, 0).and_then(|message| {
            message
                .flags(DEFERRED_REMOVE)
                .send(&self.control, MapperRequest::Remove)
        });
    }
}

impl Backing for Mapping {
    fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The state that the first target reports.
    fn status(&self) -> io::Result<String> {
        let mut message = Message::new(&self.name, STATUS_SIZE)?;
        message.send(&self.control, MapperRequest::Status)?;
        let start = get32(&message.0, 16) as usize + TARGET_SIZE;
        let text = message.0.get(start..).unwrap_or_default();
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

impl Mapping {
    fn load(&self, targets: &[Target]) -> io::Result<()> {
        let access = if self.read_only { READ_ONLY } else { 0 };
        let mut table = Message::with_table(&self.name, targets)?.flags(SECURE_DATA | access);
        table.send(&self.control, MapperRequest::Load)?;
        let mut resume = Message::new(&self.name, 0)?.flags(access);
        resume.send(&self.control, MapperRequest::Suspend)
    }
}

impl Kernel {
    /// Makes a block device by a table of the device mapper. `name` is not in use yet. `below`: the
    /// devices that the table names; they are kept as long as the new one. The kernel loads the
    /// drivers of the targets.
    pub fn map(
        &self,
        name: &str,
        read_only: bool,
        targets: &[Target],
        below: &[BlockDevice],
    ) -> io::Result<BlockDevice> {
        self.check_devices(below)?;
        let control = open_control(self)?;
        let mut create = Message::new(name, 0)?;
        create.send(&control, MapperRequest::Create)?;
        let mapping = Mapping {
            control,
            kernel: self.clone(),
            name: name.to_owned(),
            read_only,
            _below: below.to_vec(),
        };
        mapping.load(targets)?;
        let minor = minor(get32(&create.0, NUMBER));
        BlockDevice::new(Box::new(mapping), format!("dm-{minor}"))
    }
}

/// The minor number in the kernel's form of a device number.
fn minor(number: u32) -> u32 {
    number & 0xff | number >> 12 & 0xf_ff00
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(kind: &'static str, parameters: &str) -> Target {
        Target {
            start: 8,
            size: 16,
            kind,
            parameters: parameters.to_owned(),
        }
    }

    #[test]
    fn tables_are_laid_out_as_the_kernel_reads_them() {
        let table = [target("linear", "253:1 0"), target("zero", "")];
        let message = Message::with_table("name", &table).unwrap().0;
        assert_eq!(message.len(), MAPPER_HEADER_SIZE + 48 + 48);
        assert_eq!(get32(&message, 20), 2);
        assert_eq!(&message[48..53], b"name\0");
        let first = &message[MAPPER_HEADER_SIZE..];
        assert_eq!((get32(first, 0), get32(first, 8)), (8, 16));
        assert_eq!(get32(first, 20), 48);
        assert_eq!(&first[24..31], b"linear\0");
        assert_eq!(&first[40..48], b"253:1 0\0");
        assert_eq!(&first[48 + 24..48 + 29], b"zero\0");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for name in ["", "a/b", "a\0b", &"x".repeat(128)] {
            assert!(Message::new(name, 0).is_err(), "{name:?}");
        }
        assert!(Message::new(&"x".repeat(127), 0).is_ok());
        let bad = [
            target("a name that is too long", ""),
            target("zero", "a\0b"),
        ];
        for target in bad {
            assert!(Message::with_table("name", &[target]).is_err());
        }
    }

    #[test]
    fn device_numbers() {
        assert_eq!(minor(0x0010_fd05), 0x105);
    }
}
