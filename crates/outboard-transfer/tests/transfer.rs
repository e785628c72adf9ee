// SPDX-License-Identifier: GPL-2.0-only
//! Copies and archives as programs use them. Needs mke2fs.

use outboard_transfer::{Cancel, ErrorKind, Format, Keep, Transfer};
use outboard_volume::{HostTree, Options, Tree, Volume};
use std::error::Error;
use std::fs::{self, File};
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
    let transfer = Transfer::new().on_progress(move |count| {
        most.fetch_max(count.bytes, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let summary = transfer.copy(&HostTree, work.path("tree"), &disk, "/new")?;
    assert!(
        summary.files >= 102 && summary.bytes >= LARGE as u64,
        "{summary:?}"
    );
    assert_eq!(seen.load(Ordering::Relaxed), summary.bytes);
    check(&disk, Path::new("/new"))?;
    disk.close()?;
    let disk = Volume::open(work.path("image"), Options::new())?;
    let out = work.path("out");
    Transfer::new().copy(&disk, "/new", &HostTree, &out)?;
    check(&HostTree::directory("/")?, &out)?;
    // Once more: into what is there.
    let plain = Transfer::new().keep(Keep::Nothing).threads(1);
    plain.copy(&disk, "/new/large", &HostTree, out.join("d/0"))?;
    assert_eq!(fs::metadata(out.join("d/0"))?.len(), LARGE as u64);
    plain.copy(&disk, "/new", &HostTree, &out)?;
    assert_eq!(fs::read(out.join("d/0"))?, b"0");
    Ok(())
}

#[test]
fn archives() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    let mut archive = tempfile::tempfile()?;
    Transfer::new().pack(&HostTree, work.path("tree"), &archive, Format::Zstd)?;
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
fn files_of_open_volumes_are_not_overwritten() -> Result {
    let work = Work::new(64);
    fs::write(work.path("key"), "never used")?;
    fs::hard_link(work.path("image"), work.path("hard"))?;
    symlink("image", work.path("soft"))?;
    fs::create_dir(work.path("into"))?;
    fs::hard_link(work.path("image"), work.path("into/image"))?;
    let before = fs::read(work.path("image"))?;
    let options = Options::new().key_file(work.path("key"));
    let disk = Volume::open(work.path("image"), options)?;
    // The source is a tree with the name of the image in it.
    fs::create_dir(work.path("tree/new"))?;
    fs::write(work.path("tree/new/image"), "new")?;
    let other = work.0.empty_ext4("other", 64, &[]);
    let source = Volume::open_writable(&other, Options::new())?;
    Transfer::new().copy(&HostTree, work.path("tree/new"), &source, "/new")?;
    for plain in [false, true] {
        let transfer = if plain {
            Transfer::new().keep(Keep::Nothing)
        } else {
            Transfer::new()
        };
        for (from, to) in [
            ("/new/image", "image"),
            ("/new/image", "hard"),
            ("/new/image", "other"),
            ("/new/image", "key"),
            ("/new", "into"),
        ] {
            let copied = transfer.copy(&source, from, &HostTree, work.path(to));
            let error = copied.expect_err(to);
            assert_eq!(error.kind(), ErrorKind::InUse, "{to}: {error}");
            assert!(error.message().contains("open volume"), "{error}");
        }
        // A link is replaced, not followed.
        transfer.copy(&source, "/new/image", &HostTree, work.path("soft"))?;
    }
    let archive = File::options().write(true).open(work.path("hard"))?;
    let error = Transfer::new().pack_file(&source, "/new", &archive, Format::Plain);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InUse);
    assert!(
        fs::read(work.path("image"))? == before,
        "the image has changed"
    );
    assert_eq!(fs::read_to_string(work.path("key"))?, "never used");
    disk.close()?;
    // The volume is closed: now the contents of the image protect it.
    let copied = Transfer::new().copy(&source, "/new/image", &HostTree, work.path("image"));
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::AlreadyExists);
    fs::remove_file(work.path("image"))?;
    Transfer::new().copy(&source, "/new/image", &HostTree, work.path("image"))?;
    source.close()?;
    Ok(())
}

/// Two files of a source do not become one because the destination has a hard link.
#[test]
fn a_copy_does_not_overwrite_its_own_files() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    disk.create_dir("/new")?;
    disk.write("/new/1", "old")?;
    disk.hard_link("/new/1", "/new/2")?;
    Transfer::new().copy(&HostTree, work.path("tree/d"), &disk, "/new")?;
    for name in ["1", "2", "99"] {
        assert_eq!(disk.read_to_string(format!("/new/{name}"))?, name);
    }
    disk.close()?;
    Ok(())
}

#[test]
fn a_cancelled_copy_names_an_old_file_that_is_not_whole() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    disk.write("/large", "old")?;
    let transfer = Transfer::new()
        .threads(1)
        .on_progress(|count| match count.bytes {
            0..=1000 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
    let copied = transfer.copy(&HostTree, work.path("tree/large"), &disk, "/large");
    let error = copied.expect_err("it was cancelled");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(
        error.message().contains("/large has only a part of"),
        "{error}"
    );
    disk.close()?;
    Ok(())
}

#[test]
fn a_cancelled_copy_leaves_no_half_file() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    let transfer = Transfer::new()
        .threads(1)
        .on_progress(|count| match count.bytes {
            0..=1000 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
    let large = work.path("tree/large");
    let error = transfer
        .copy(&HostTree, large, &disk, "/large")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(!disk.exists("/large")?, "a file that is not complete");
    let cancel = Cancel::new();
    cancel.cancel();
    let never = Transfer::new().cancel(&cancel);
    let error = never
        .copy(&HostTree, work.path("tree"), &disk, "/new")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(!disk.exists("/new/large")?);
    // Another transfer is not concerned.
    Transfer::new().copy(&HostTree, work.path("tree"), &disk, "/new")?;
    check(&disk, Path::new("/new"))?;
    disk.close()?;
    Ok(())
}

#[test]
fn nothing_cancelled_claims_to_be_whole() -> Result {
    let work = Work::new(64);
    let disk = work.open();
    let (host, tree) = (HostTree, work.path("tree"));
    Transfer::new().copy(&host, &tree, &disk, "/new")?;
    let archive = File::create_new(work.path("whole.tar"))?;
    Transfer::new().pack(&disk, "/new", &archive, Format::Plain)?;
    let hasty = Transfer::new()
        .threads(1)
        .on_progress(|count| match count.bytes {
            0..=1000 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
    let out = work.path("out");
    let copied = hasty.copy(&disk, "/new/large", &host, &out);
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(!out.exists(), "a file that is not complete");
    disk.create_dir("/unpacked")?;
    let unpacked = hasty.unpack(File::open(work.path("whole.tar"))?, &disk, "/unpacked");
    assert_eq!(unpacked.unwrap_err().kind(), ErrorKind::Interrupted);
    if disk.exists("/unpacked/large")? {
        assert_eq!(disk.metadata("/unpacked/large")?.len(), LARGE as u64);
    }
    let archive = File::create_new(work.path("part.tar"))?;
    let packed = hasty.pack_file(&disk, "/new", &archive, Format::Plain);
    assert_eq!(packed.unwrap_err().kind(), ErrorKind::Interrupted);
    disk.create_dir("/part")?;
    match Transfer::new().unpack(File::open(work.path("part.tar"))?, &disk, "/part") {
        Ok(summary) => assert!(summary.warnings[0].contains("cut off"), "{summary:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{error}"),
    }
    disk.close()?;
    Ok(())
}

#[test]
fn failures_have_kinds_and_names() -> Result {
    let work = Work::new(4);
    let disk = work.open();
    let (host, tree) = (HostTree, work.path("tree"));
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
