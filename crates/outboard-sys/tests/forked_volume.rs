// SPDX-License-Identifier: GPL-2.0-only
//! A fork(2) while a volume is open. In this crate since no other one may call fork. Its own
//! process: the child has nothing of the threads of other tests. Needs mke2fs and qemu-img.

use outboard_sys::{end_at_once, libc};
use outboard_volume::{ErrorKind, Options, Volume};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::Command;

fn run(tool: &str, words: &[&str]) {
    let done = Command::new(tool)
        .args(words)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{tool} {words:?}: {said}");
}

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
    // SAFETY: the child runs the code below only, and the other threads of this process are the
    // kernel's or wait for this one: no lock of the C library or of Rust is held.
    let id = unsafe { libc::fork() };
    if id == 0 {
        end_at_once(child(disk));
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0);
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
    let work = tempfile::tempdir()?;
    let image = work.path().join("image");
    let raw = image.to_str().expect("a temporary name");
    File::create(&image)?.set_len(16 << 20)?;
    run("mke2fs", &["-q", "-t", "ext4", raw]);
    let qcow2 = work.path().join("disk.qcow2");
    run(
        "qemu-img",
        &[
            "convert",
            "-O",
            "qcow2",
            raw,
            qcow2.to_str().expect("as above"),
        ],
    );
    for image in [&image, &qcow2] {
        fork_with(image)?;
    }
    run("e2fsck", &["-f", "-n", raw]);
    run(
        "qemu-img",
        &["check", "-q", qcow2.to_str().expect("as above")],
    );
    Ok(())
}
