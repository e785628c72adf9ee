// SPDX-License-Identifier: GPL-2.0-only
//! Copies and archives as programs use them. Needs mke2fs.

use outboard_transfer::{Cancel, ErrorKind, Format, Keep, Transfer};
use outboard_volume::{Options, Tree, Volume};
use std::error::Error;
use std::fs;
use std::io::{Read, Seek};
use std::ops::ControlFlow;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Bytes of the largest file.
const LARGE: usize = 8 << 20;

/// A directory with a tree for one test, and an image of an empty file system.
struct Work(outboard_test_images::Work);

impl Work {
    fn new(megabytes: u64) -> Self {
        let work = Self(outboard_test_images::Work::new());
        fs::create_dir_all(work.path("tree/d/e")).unwrap();
        fs::write(work.path("tree/large"), vec![7; LARGE]).unwrap();
        for index in 0..100 {
            fs::write(work.path(&format!("tree/d/{index}")), index.to_string()).unwrap();
        }
        fs::hard_link(work.path("tree/d/1"), work.path("tree/d/e/again")).unwrap();
        symlink("d/1", work.path("tree/link")).unwrap();
        let closed = fs::Permissions::from_mode(0o555);
        fs::set_permissions(work.path("tree/d/e"), closed).unwrap();
        work.0.empty_ext4("image", megabytes, &[]);
        work
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn open(&self) -> Volume {
        Volume::open_writable(self.path("image"), Options::new()).unwrap()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for tree in ["tree", "out"] {
            let open = fs::Permissions::from_mode(0o755);
            let _ = fs::set_permissions(self.path(&format!("{tree}/d/e")), open);
        }
    }
}

fn check(tree: &Tree, top: &Path) -> Result {
    assert_eq!(tree.metadata(top.join("large"))?.len(), LARGE as u64);
    assert_eq!(tree.read_to_string(top.join("d/99"))?, "99");
    assert_eq!(tree.metadata(top.join("d/e/again"))?.links(), 2);
    assert_eq!(tree.metadata(top.join("d/e"))?.permissions(), 0o555);
    assert_eq!(tree.read_link(top.join("link"))?, Path::new("d/1"));
    Ok(())
}

#[test]
fn in_and_out() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    let seen = Arc::new(AtomicU64::new(0));
    let most = Arc::clone(&seen);
    let transfer = Transfer::new().watch(move |count| {
        most.fetch_max(count.bytes, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let summary = transfer.copy(&Tree::host(), work.path("tree"), &disk, "/new")?;
    assert!(
        summary.files >= 102 && summary.bytes >= LARGE as u64,
        "{summary:?}"
    );
    assert_eq!(seen.load(Ordering::Relaxed), summary.bytes);
    check(&disk, Path::new("/new"))?;
    disk.close()?;
    let disk = Volume::open(work.path("image"), Options::new())?;
    let out = work.path("out");
    Transfer::new().copy(&disk, "/new", &Tree::host(), &out)?;
    check(&Tree::host(), &out)?;
    // Once more: into what is there.
    let plain = Transfer::new().keep(Keep::Nothing).threads(1);
    plain.copy(&disk, "/new/large", &Tree::host(), out.join("d/0"))?;
    assert_eq!(fs::metadata(out.join("d/0"))?.len(), LARGE as u64);
    plain.copy(&disk, "/new", &Tree::host(), &out)?;
    assert_eq!(fs::read(out.join("d/0"))?, b"0");
    Ok(())
}

#[test]
fn archives() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    let mut archive = tempfile::tempfile()?;
    Transfer::new().pack(&Tree::host(), work.path("tree"), &archive, Format::Zstd)?;
    assert!(
        archive.metadata()?.len() < LARGE as u64 / 10,
        "it is compressed"
    );
    disk.create_dir("/new")?;
    archive.rewind()?;
    Transfer::new().unpack(archive.try_clone()?, &disk, "/new")?;
    check(&disk, Path::new("/new"))?;
    archive.rewind()?;
    let cut = archive.try_clone()?.take(400);
    let error = Transfer::new().unpack(cut, &disk, "/new").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    let error = Transfer::new().unpack(archive, &disk, "/none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    disk.close()?;
    Ok(())
}

#[test]
fn a_cancelled_copy_leaves_no_half_file() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    let transfer = Transfer::new().threads(1).watch(|count| match count.bytes {
        0..=1000 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    let large = work.path("tree/large");
    let error = transfer
        .copy(&Tree::host(), large, &disk, "/large")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(!disk.exists("/large")?, "a file that is not complete");
    let cancel = Cancel::new();
    cancel.cancel();
    let never = Transfer::new().cancel(&cancel);
    let error = never
        .copy(&Tree::host(), work.path("tree"), &disk, "/new")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(!disk.exists("/new/large")?);
    // Another transfer is not concerned.
    Transfer::new().copy(&Tree::host(), work.path("tree"), &disk, "/new")?;
    check(&disk, Path::new("/new"))?;
    disk.close()?;
    Ok(())
}

#[test]
fn failures_have_kinds_and_names() -> Result {
    let work = Work::new(4);
    let disk = work.open();
    let (host, tree) = (Tree::host(), work.path("tree"));
    let error = Transfer::new()
        .copy(&host, &tree, &disk, "/new")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.message().contains("cannot write /new/"), "{error}");
    let error = Transfer::new()
        .copy(&host, work.path("none"), &disk, "/x")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = Transfer::new()
        .copy(&host, &tree, &disk, "/none/x")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    disk.close()?;
    let disk = Volume::open(work.path("image"), Options::new())?;
    let error = Transfer::new()
        .copy(&host, &tree, &disk, "/other")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    Ok(())
}
