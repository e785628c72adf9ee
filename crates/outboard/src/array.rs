// SPDX-License-Identifier: GPL-2.0-only
//! RAID arrays of md, and file systems of btrfs on several devices: what the kernel puts together
//! of several block devices by what their superblocks say.
//!
//! An array begins to run without writing anything: it is read-only until the first write. Then it
//! is marked as in use in its members' superblocks, and as clean again when it is stopped. Nothing
//! is resynchronised or recovered here: that is left to the machine that the array belongs to.

use crate::device::{Backing, BlockDevice};
use crate::kernel::Kernel;
use crate::kernel_files::{make_home, make_node, write_text, HOME};
use crate::{Fd, System};
use outboard_sys::libc;
use std::ffi::{CStr, CString};
use std::io;

/// Of linux/major.h.
const MD_MAJOR: u32 = 9;
/// Most arrays at a time.
const ARRAYS: u32 = 512;
/// The number of /dev/btrfs-control, as linux/miscdevice.h has it.
const BTRFS_CONTROL: (u32, u32) = (10, 234);

/// An array that runs. It is stopped before its members go.
struct Array {
    kernel: Kernel,
    node: CString,
    read_only: bool,
    members: Vec<BlockDevice>,
}

impl Drop for Array {
    fn drop(&mut self) {
        // After a halt there is no array any more: md marked it as clean then.
        let _ = open(self.kernel.system(), &self.node).and_then(|device| device.stop_array());
    }
}

fn open(system: &System, node: &CStr) -> io::Result<Fd> {
    Fd::working_directory(system).open_at(node, libc::O_RDONLY, 0)
}

impl Backing for Array {
    fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }
}

impl Array {
    fn run(&self, name: &str, device: &Fd, version: (i32, i32)) -> io::Result<()> {
        device.begin_array(version)?;
        for member in &self.members {
            device.add_array_member(member.device_number())?;
        }
        let parameters = "/sys/module/md_mod/parameters";
        let dirty = if self.read_only { "1" } else { "0" };
        let write = |path: &str, text| write_text(self.kernel.system(), path, text);
        write(&format!("{parameters}/start_ro"), "1")?;
        write(&format!("{parameters}/start_dirty_degraded"), dirty)?;
        device.run_array()?;
        match write(&format!("/sys/block/{name}/md/sync_action"), "frozen") {
            // There is nothing to synchronise without redundancy.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A number that no array has.
fn free_number(system: &System) -> io::Result<u32> {
    let root = Fd::working_directory(system);
    for number in 0..ARRAYS {
        let path = CString::new(format!("/sys/block/md{number}"))?;
        if root.stat_at(&path, 0).is_err() {
            return Ok(number);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EMFILE))
}

impl Kernel {
    /// Makes a block device of the members of an array, which have superblocks of this version (as
    /// in (1, 2)). All members that are there are needed. EINVAL, EIO: there are too few, or they
    /// do not fit.
    pub fn assemble(
        &self,
        version: (i32, i32),
        members: &[BlockDevice],
        read_only: bool,
    ) -> io::Result<BlockDevice> {
        self.check_devices(members)?;
        let system = self.system();
        system.wait_for_processors();
        self.load_component("md-mod", "")?;
        make_home(system)?;
        let number = free_number(system)?;
        let name = format!("md{number}");
        let node = CString::new(format!("{HOME}/dev/{name}"))?;
        let device = libc::makedev(MD_MAJOR, number);
        make_node(system, &node, libc::S_IFBLK, device)?;
        let device = open(system, &node)?;
        let array = Array {
            kernel: self.clone(),
            node,
            read_only,
            members: members.to_vec(),
        };
        let runs = array.run(&name, &device, version);
        // While it is open it cannot be stopped.
        drop(device);
        runs?;
        BlockDevice::new(Box::new(array), name)
    }

    /// Tells btrfs of a device that is part of a file system on several.
    pub fn register_btrfs(&self, device: &BlockDevice) -> io::Result<()> {
        self.check_devices(std::slice::from_ref(device))?;
        let system = self.system();
        self.load_component("btrfs", "")?;
        make_home(system)?;
        let node = CString::new(format!("{HOME}/dev/btrfs-control"))?;
        let number = libc::makedev(BTRFS_CONTROL.0, BTRFS_CONTROL.1);
        make_node(system, &node, libc::S_IFCHR, number)?;
        open(system, &node)?.register_btrfs(device.node())
    }
}
