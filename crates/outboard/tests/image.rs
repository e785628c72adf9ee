// SPDX-License-Identifier: GPL-2.0-only
//! The whole life of a kernel: boot, disks, mounts, files, halt. Needs the real library and mke2fs.

use outboard::{
    remembered, BlockDevice, DiskOptions, FileType, Kernel, Level, LogRing, MountOptions,
    OpenOptions, Storage, Target,
};
use outboard_test_images::Work;
use std::ffi::CString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Bytes of memory that sysfs takes when it is filled, or more.
const SYSFS_LEAST: u64 = 384 << 10;

fn write_files(mount: &outboard::Mount) -> std::io::Result<()> {
    mount.create_dir_with_mode("/d", 0o750)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(mount, "/d/f")?;
    file.write_all(b"Hello, kernel")?;
    file.seek(SeekFrom::Start(7))?;
    let mut rest = String::new();
    file.read_to_string(&mut rest)?;
    assert_eq!(rest, "kernel");
    assert_eq!(file.write_at(b"J", 0)?, 1);
    let time = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_times(time, time)?;
    file.set_xattr("user.colour", b"green")?;
    mount.symlink("/d/f", "/link")?;
    mount.hard_link("/d/f", "/d/g")?;
    mount.set_permissions("/d/g", 0o600)?;
    let link = mount.set_permissions("/link", 0o666).unwrap_err();
    assert_eq!(link.raw_os_error(), Some(40), "ELOOP");
    mount.chown("/d/f", 1000, 1001)?;
    for index in 0..500 {
        mount.create(format!("/d/{index}"))?;
    }
    let exists = mount.create_dir("/d").unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    Ok(())
}

fn check_files(mount: &outboard::Mount) -> std::io::Result<()> {
    let mut text = String::new();
    mount.open("/link")?.read_to_string(&mut text)?;
    assert_eq!(text, "Jello, kernel");
    assert_eq!(mount.read_link("/link")?, Path::new("/d/f"));
    assert_eq!(mount.canonicalize("/link")?, Path::new("/d/f"));
    let metadata = mount.metadata("../../d/g")?;
    assert_eq!(metadata.links(), 2);
    assert_eq!((metadata.user(), metadata.group()), (1000, 1001));
    assert_eq!(metadata.permissions(), 0o600);
    let time = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    assert_eq!(metadata.modified(), time);
    assert_eq!(mount.xattr("/d/f", "user.colour")?, b"green");
    let mut names = 0;
    for entry in mount.read_dir("/d")? {
        assert_eq!(entry?.file_type()?, FileType::Regular);
        names += 1;
    }
    assert_eq!(names, 502);
    let missing = mount.open("/none").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    Ok(())
}

fn linear(start: u64, size: u64, device: &BlockDevice, offset: u64) -> Target {
    Target {
        start,
        size,
        kind: "linear",
        parameters: format!("{} {offset}", device.number()),
    }
}

/// A mapping that swaps the first two MiB of a disk, and one above it that swaps them back.
fn check_mappings(kernel: &Kernel, device: &BlockDevice) -> std::io::Result<()> {
    const MIB: u64 = 2048;
    let sectors = device.size()? / 512;
    let rest = sectors - 2 * MIB;
    let swapped = |below: &BlockDevice| {
        [
            linear(0, MIB, below, MIB),
            linear(MIB, MIB, below, 0),
            linear(2 * MIB, rest, below, 2 * MIB),
        ]
    };
    let below = [device.clone()];
    let wrong = kernel.map("wrong", true, &[linear(0, sectors, device, 1)], &below);
    assert!(wrong.is_err(), "beyond the end of the disk");
    let once = kernel.map("once", true, &swapped(device), &below)?;
    assert_eq!(once.size()?, sectors * 512);
    assert!(once.is_read_only() && once.probe()?.is_none());
    assert!(kernel.map("once", true, &[], &[]).is_err(), "in use");
    let twice = kernel.map("twice", true, &swapped(&once), std::slice::from_ref(&once))?;
    drop(once);
    assert_eq!(twice.probe()?.expect("an ext4 file system").kind, "ext4");
    let mount = twice.mount(&MountOptions::default())?;
    check_files(&mount)?;
    mount.unmount()?;
    drop(twice);
    let again = kernel.map("once", true, &swapped(device), &below)?;
    assert_eq!(again.status()?, "");
    Ok(())
}

#[test]
fn from_boot_to_halt() -> std::io::Result<()> {
    let work = Work::new();
    let image = work.empty_ext4("image", 64, &["-L", "api"]);
    let log = Arc::new(LogRing::new(64));
    let ring = Arc::clone(&log);
    let kernel = Kernel::builder()
        .vcpus(2)
        .log(Level::Info, move |level, line| ring.push(level, line))
        .boot()?;
    assert!(kernel.has_file_system("ext4"));
    let disk = kernel.add_disk(&image, DiskOptions::read_write())?;
    // The first look at sysfs would fill it.
    let before = remembered(kernel.system())?.other;
    assert!(disk.device(Some(1)).is_err());
    let device = disk.device(None)?;
    assert!(remembered(kernel.system())?.other.saturating_sub(before) < SYSFS_LEAST);
    assert!(disk.partitions()?.is_empty());
    assert!(remembered(kernel.system())?.other.saturating_sub(before) >= SYSFS_LEAST);
    let found = device.probe()?.expect("an ext4 file system");
    assert_eq!((found.kind, found.label.as_deref()), ("ext4", Some("api")));
    let mut other = found.clone();
    other.kind = "vfat";
    assert!(device
        .mount(&MountOptions::default().probed(&other))
        .is_err());
    let mount = device.mount(&MountOptions::default().probed(&found))?;
    assert_eq!(mount.kind(), "ext4");
    assert!(mount.space()?.free > 32 << 20);
    write_files(&mount)?;
    check_files(&mount)?;
    mount.unmount()?;
    drop((device, disk));

    let before = std::fs::read(&image)?;
    let disk = kernel.add_disk(&image, DiskOptions::read_only())?;
    let mount = disk.device(None)?.mount(&MountOptions::default())?;
    assert!(mount.is_read_only() && !mount.journal_ignored());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| check_files(&mount)))
            .collect();
        for thread in threads {
            thread.join().expect("no panic")?;
        }
        std::io::Result::Ok(())
    })?;
    let refused = mount.create("/new").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "EROFS");
    mount.unmount()?;
    check_mappings(&kernel, &disk.device(None)?)?;
    drop(disk);
    assert!(std::fs::read(&image)? == before, "a read-only disk changed");

    let position = log.position();
    let wrong = kernel
        .add_disk(&image, DiskOptions::read_only())?
        .device(None)?
        .mount(&MountOptions::default().kind("xfs"));
    assert!(wrong.is_err());
    assert!(!log.since(position, Level::Warning).is_empty());

    kernel.halt()
}

/// A disk in memory. Its writes fail from some time on.
struct FailingDisk {
    bytes: Mutex<Vec<u8>>,
    fails: AtomicBool,
}

impl FailingDisk {
    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(5))
        } else {
            Ok(())
        }
    }
}

impl Storage for FailingDisk {
    fn size(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read_at(&self, pieces: Vec<IoSliceMut<'_>>, offset: u64) -> io::Result<()> {
        let bytes = self.bytes.lock().unwrap();
        let mut rest = &bytes[offset as usize..];
        for mut piece in pieces {
            rest.read_exact(&mut piece)?;
        }
        Ok(())
    }

    fn write_at(&self, pieces: Vec<IoSlice<'_>>, offset: u64) -> io::Result<()> {
        self.check()?;
        let mut bytes = self.bytes.lock().unwrap();
        let mut rest = &mut bytes[offset as usize..];
        for piece in pieces {
            rest.write_all(&piece)?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.check()
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        self.write_at(vec![IoSlice::new(&vec![0; length as usize])], offset)
    }
}

/// Also where the file system is not on a device of ours, as those of servers.
#[test]
fn writes_that_fail_late_are_errors_of_the_unmount() -> std::io::Result<()> {
    let work = Work::new();
    let image = std::fs::read(work.empty_ext4("late.img", 16, &[]))?;
    for is_of_server in [false, true] {
        let storage = Arc::new(FailingDisk {
            bytes: Mutex::new(image.clone()),
            fails: AtomicBool::new(false),
        });
        let kernel = Kernel::builder().boot()?;
        let disk = kernel.add_served_disk(storage.clone(), DiskOptions::read_write())?;
        let device = disk.device(None)?;
        let mount = if is_of_server {
            let source = CString::new(format!("/dev/{}", device.name()))?;
            kernel.mount_remote("ext4", &source, false, c"")?
        } else {
            device.mount(&MountOptions::default())?
        };
        mount.create("/f")?.write_all(&vec![7; 1 << 20])?;
        storage.fails.store(true, Ordering::SeqCst);
        assert!(mount.unmount().is_err(), "of a server: {is_of_server}");
    }
    Ok(())
}
