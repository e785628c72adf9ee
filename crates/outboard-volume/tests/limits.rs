// SPDX-License-Identifier: GPL-2.0-only
//! Cancellers and deadlines of callers. Needs mke2fs.

use outboard_test_images::{check_ext4, Work};
use outboard_volume::{Cancel, Deadline, Error, ErrorKind, Options, Volume};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// Frames of zstd with 64 GiB of zeroes: more than a test waits for.
fn endless(work: &Work) -> PathBuf {
    let frame = zstd::encode_all(&vec![0; 64 << 20][..], 1).unwrap();
    let image = work.path("disk.zst");
    fs::write(&image, frame.repeat(1024)).unwrap();
    image
}

fn check(error: &Error, kind: ErrorKind, image: &Path) {
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.path(), Some(image));
    assert!(error.message().starts_with("cannot open "), "{error}");
}

#[test]
fn an_open_that_takes_too_long_ends() {
    let work = Work::new();
    let image = endless(&work);
    let soon = Deadline::after(Duration::from_millis(200));
    let late = soon.run(|| Volume::open(&image, Options::new()));
    check(&late.unwrap_err(), ErrorKind::TimedOut, &image);
    let cancel = Cancel::new();
    let cancelled = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        cancel.run(|| Volume::open(&image, Options::new()))
    });
    check(&cancelled.unwrap_err(), ErrorKind::Interrupted, &image);
    // One that has stopped before opens nothing.
    let image = work.ext4("image");
    let cancelled = cancel.run(|| Volume::open(&image, Options::new()));
    check(&cancelled.unwrap_err(), ErrorKind::Interrupted, &image);
    let passed = Deadline::from(Instant::now());
    let late = passed.run(|| Volume::open_writable(&image, Options::new()));
    check(&late.unwrap_err(), ErrorKind::TimedOut, &image);
    Volume::open_writable(&image, Options::new()).unwrap();
}

#[test]
fn a_volume_is_closed_after_a_stop() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open_writable(&image, Options::new())?;
    disk.write("/new", "text")?;
    let cancel = Cancel::new();
    cancel.cancel();
    let closed = cancel.run(|| {
        let error = disk.write("/other", "text").expect_err("it was cancelled");
        assert_eq!(ErrorKind::of(&error), ErrorKind::Interrupted, "{error}");
        let error = disk.sync().expect_err("as above");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        disk.close()
    });
    closed?;
    check_ext4(&image);
    let disk = Volume::open(&image, Options::new())?;
    assert_eq!(disk.read_to_string("/new")?, "text");
    assert!(!disk.exists("/other")?);
    Ok(())
}
