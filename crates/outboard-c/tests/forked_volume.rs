// SPDX-License-Identifier: GPL-2.0-only
//! A fork(2) while a volume is open. In this crate since most others have no unsafe code. Its own
//! process: the child has nothing of the threads of other tests. Needs mke2fs and qemu-img.

#[path = "../../outboard-sys/tests/forked/mod.rs"]
mod forked;

use forked::fork;
use outboard::end_at_once;
use outboard_test_images::{check_ext4, run, text, Work};
use outboard_volume::{Disk, ErrorKind, File, Options, Volume};
use std::error::Error;
use std::path::Path;

/// Returns the number of what is wrong in the child, 0 for nothing.
fn child(disk: Volume, file: &File) -> i32 {
    let inherited = file.metadata().map_err(|error| ErrorKind::of(&error)).err();
    if inherited != Some(ErrorKind::Closed) {
        return 5;
    }
    let read = disk.read("/before").map_err(|error| ErrorKind::of(&error));
    if read != Err(ErrorKind::Closed) {
        return 1;
    }
    let write = disk
        .write("/child", "")
        .map_err(|error| ErrorKind::of(&error));
    if write != Err(ErrorKind::Closed) {
        return 2;
    }
    if disk.check().map_err(|error| error.kind()) != Err(ErrorKind::Closed) {
        return 3;
    }
    match disk.close().map_err(|error| error.kind()) {
        Err(ErrorKind::Closed) => 0,
        _ => 4,
    }
}

fn fork_with(image: &Path) -> Result<(), Box<dyn Error>> {
    let disk = Volume::open_writable(image, Options::new())?;
    // It waits to be written when the process forks.
    disk.write("/before", vec![1; 1 << 20])?;
    let file = disk.open("/before")?;
    let Some(forked) = fork() else {
        end_at_once(child(disk, &file));
    };
    forked.check();
    disk.check()?;
    assert_eq!(file.metadata()?.len(), 1 << 20, "the parent's goes on");
    drop(file);
    disk.write("/after", "text")?;
    disk.close()?;
    let disk = Volume::open(image, Options::new())?;
    assert_eq!(disk.read("/before")?, vec![1; 1 << 20]);
    assert_eq!(disk.read("/after")?, b"text");
    assert!(!disk.exists("/child")?);
    disk.close()?;
    Ok(())
}

#[test]
fn a_child_leaves_its_parents_volume_alone() -> Result<(), Box<dyn Error>> {
    let work = Work::new();
    let image = work.empty_ext4("image", 16, &[]);
    let qcow2 = work.qcow2("disk.qcow2", &image);
    for image in [&image, &qcow2] {
        fork_with(image)?;
    }
    check_ext4(&image);
    run("qemu-img", &["check", "-q", text(&qcow2)]);
    Ok(())
}

/// As [`child`], with a disk and a volume of it.
fn child_with_disk(disk: Disk, volume: Volume) -> i32 {
    let kinds = [
        volume
            .read("/before")
            .map_err(|error| ErrorKind::of(&error))
            .err(),
        disk.volume("").map_err(|error| error.kind()).err(),
        disk.volume_writable("").map_err(|error| error.kind()).err(),
        disk.volumes().map_err(|error| error.kind()).err(),
        volume.close().map_err(|error| error.kind()).err(),
        disk.close().map_err(|error| error.kind()).err(),
    ];
    let bad = kinds
        .iter()
        .position(|kind| *kind != Some(ErrorKind::Closed));
    bad.map_or(0, |index| index as i32 + 1)
}

#[test]
fn a_child_leaves_its_parents_disk_alone() -> Result<(), Box<dyn Error>> {
    let work = Work::new();
    let image = work.empty_ext4("image", 16, &[]);
    let disk = Disk::open_writable(&image, Options::new())?;
    let volume = disk.volume_writable("")?;
    volume.write("/before", vec![1; 1 << 20])?;
    let Some(forked) = fork() else {
        end_at_once(child_with_disk(disk, volume));
    };
    forked.check();
    assert_eq!(disk.volumes()?.len(), 1, "the parent's goes on");
    volume.write("/after", "text")?;
    volume.close()?;
    disk.close()?;
    let volume = Volume::open(&image, Options::new())?;
    assert_eq!(volume.read("/before")?, vec![1; 1 << 20]);
    assert_eq!(volume.read("/after")?, b"text");
    volume.close()?;
    check_ext4(&image);
    Ok(())
}
