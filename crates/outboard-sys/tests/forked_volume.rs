// SPDX-License-Identifier: GPL-2.0-only
//! A fork(2) while a volume is open. In this crate since no other one may call fork. Its own
//! process: the child has nothing of the threads of other tests. Needs mke2fs and qemu-img.

mod common;

use common::fork;
use outboard_sys::end_at_once;
use outboard_test_images::{check_ext4, run, text, Work};
use outboard_volume::{ErrorKind, Options, Volume};
use std::error::Error;
use std::path::Path;

/// Returns the number of what is wrong in the child, 0 for nothing.
fn child(disk: Volume) -> i32 {
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
    let Some(forked) = fork() else {
        end_at_once(child(disk));
    };
    forked.check();
    disk.check()?;
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
