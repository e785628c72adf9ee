// SPDX-License-Identifier: GPL-2.0-only
//! Copies on the host: the same code that copies into and out of images.

use super::*;
use crate::exclusion::Exclusion;
use crate::hidden::HiddenFinder;
use outboard_sandbox::HostAccess;
use outboard_volume::options::Options as VolumeOptions;
use outboard_volume::session::ProcessState;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A directory of its own for a test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("outboard-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings() -> VolumeOptions {
    VolumeOptions {
        vcpus: Some(2),
        ..VolumeOptions::default()
    }
}

/// Copies with the host's trees alone; tells the number of failures.
fn copy(archive: bool, recursive: bool, sources: &[PathBuf], target: PathBuf) -> Result<u64> {
    let options = Options {
        keep: if archive {
            Keep::Everything
        } else {
            Keep::Nothing
        },
        recursive: recursive || archive,
        follow: !recursive && !archive,
        umask: 0o022,
        ..Options::default()
    };
    let mut session = Session::new(settings(), &HostAccess::default(), ProcessState::default())?;
    let report = Report::default();
    let request = CopyRequest {
        options,
        changes: &Changes::default(),
        excluded: &Exclusion::default(),
        names: None,
        hidden: &HiddenFinder::default(),
        operand: None,
    };
    let sources: Vec<Place> = sources.iter().cloned().map(Place::Host).collect();
    let target = Place::Host(target);
    let never = Interrupt::default();
    let result = copy_places(&mut session, &request, &never, &sources, &target, &report);
    match result {
        Ok(()) | Err(Error::AlreadyReported) => Ok(report.failures()),
        Err(other) => Err(other),
    }
}

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::write(root.join("a/file"), b"contents").unwrap();
    fs::write(root.join("a/b/empty"), b"").unwrap();
    fs::write(root.join("a/b/c/big"), vec![7u8; 3_000_000]).unwrap();
    fs::hard_link(root.join("a/file"), root.join("a/b/again")).unwrap();
    symlink("../file", root.join("a/b/link")).unwrap();
    for index in 0..200 {
        fs::write(root.join(format!("a/b/c/{index}")), index.to_string()).unwrap();
    }
    fs::set_permissions(root.join("a/b/c"), fs::Permissions::from_mode(0o555)).unwrap();
}

fn unlock(root: &Path) {
    let _ = fs::set_permissions(root.join("a/b/c"), fs::Permissions::from_mode(0o755));
}

#[test]
fn archive_keeps_a_tree() {
    let scratch = Scratch::new("archive");
    make_tree(&scratch.0);
    assert_eq!(
        copy(true, false, &[scratch.path("a")], scratch.path("new")),
        Ok(0)
    );
    let new = scratch.path("new");
    assert_eq!(fs::read(new.join("file")).unwrap(), b"contents");
    assert_eq!(fs::read(new.join("b/c/big")).unwrap(), vec![7u8; 3_000_000]);
    assert_eq!(fs::read(new.join("b/c/199")).unwrap(), b"199");
    assert_eq!(
        fs::read_link(new.join("b/link")).unwrap(),
        Path::new("../file")
    );
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(new.join("file")), inode(new.join("b/again")));
    for path in ["", "file", "b", "b/c", "b/c/big"] {
        let old = fs::metadata(scratch.path("a").join(path)).unwrap();
        let copy = fs::metadata(new.join(path)).unwrap();
        assert_eq!(old.mode(), copy.mode(), "{path}");
        assert_eq!(
            (old.mtime(), old.mtime_nsec()),
            (copy.mtime(), copy.mtime_nsec()),
            "{path}"
        );
    }
    unlock(&scratch.0);
    let _ = fs::set_permissions(new.join("b/c"), fs::Permissions::from_mode(0o755));
}

#[test]
fn recursive_copies_use_the_umask() {
    let scratch = Scratch::new("umask");
    fs::create_dir(scratch.path("d")).unwrap();
    fs::write(scratch.path("d/f"), b"x").unwrap();
    fs::set_permissions(scratch.path("d/f"), fs::Permissions::from_mode(0o4777)).unwrap();
    assert_eq!(
        copy(false, true, &[scratch.path("d")], scratch.path("e")),
        Ok(0)
    );
    let mode = fs::metadata(scratch.path("e/f")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o755);
}

#[test]
fn holes_stay_holes() {
    let scratch = Scratch::new("holes");
    let file = fs::File::create(scratch.path("sparse")).unwrap();
    file.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"middle", 32 << 20).unwrap();
    drop(file);
    assert_eq!(
        copy(
            false,
            false,
            &[scratch.path("sparse")],
            scratch.path("copy")
        ),
        Ok(0)
    );
    let copy = fs::metadata(scratch.path("copy")).unwrap();
    assert_eq!(copy.len(), 64 << 20);
    assert!(copy.blocks() * 512 < 1 << 20);
    let bytes = fs::read(scratch.path("copy")).unwrap();
    assert_eq!(&bytes[32 << 20..(32 << 20) + 6], b"middle");
}

#[test]
fn destinations_as_cp_has_them() {
    let scratch = Scratch::new("destinations");
    fs::write(scratch.path("f"), b"1").unwrap();
    fs::write(scratch.path("g"), b"2").unwrap();
    fs::create_dir(scratch.path("d")).unwrap();
    let path = |name: &str| scratch.path(name);
    assert_eq!(copy(false, false, &[path("f")], path("d")), Ok(0));
    assert_eq!(fs::read(path("d/f")).unwrap(), b"1");
    assert_eq!(copy(false, false, &[path("g")], path("d/f")), Ok(0));
    assert_eq!(fs::read(path("d/f")).unwrap(), b"2");
    assert!(copy(false, false, &[path("f"), path("g")], path("new")).is_err());
    assert_eq!(copy(false, false, &[path("d")], path("e")), Ok(1));
    assert_eq!(copy(false, false, &[path("f")], path("f")), Ok(1));
    assert_eq!(copy(false, true, &[path("d")], path("d/sub")), Ok(1));
    assert_eq!(copy(false, true, &[path("d/.")], path("e")), Ok(0));
    assert!(path("e/f").exists());
    assert_eq!(fs::read(path("f")).unwrap(), b"1");
}

#[test]
fn a_copy_does_not_overwrite_an_earlier_one() {
    let scratch = Scratch::new("earlier");
    let path = |name: &str| scratch.path(name);
    for name in ["p", "q"] {
        fs::create_dir_all(path(name).join("d")).unwrap();
        fs::write(path(name).join("f"), name).unwrap();
        fs::write(path(name).join("d/f"), name).unwrap();
        fs::write(path(name).join("d").join(name), name).unwrap();
        fs::create_dir(path(&format!("to{name}"))).unwrap();
    }
    for (target, order) in [("top", ["p/f", "q/f"]), ("toq", ["q/f", "p/f"])] {
        assert_eq!(copy(false, false, &order.map(path), path(target)), Ok(1));
        let kept = fs::read(path(target).join("f")).unwrap();
        assert_eq!(kept, order[0].as_bytes()[..1], "{target}");
    }
    // Directories of one name are merged. An existing file may be overwritten once.
    fs::create_dir(path("top/d")).unwrap();
    fs::write(path("top/d/f"), b"old").unwrap();
    assert_eq!(
        copy(false, true, &["p/d", "q/d"].map(path), path("top")),
        Ok(1)
    );
    assert_eq!(fs::read(path("top/d/f")).unwrap(), b"p");
    assert!(path("top/d/p").exists() && path("top/d/q").exists());
    let contents = ["p/d/.", "q/d/."].map(path);
    assert_eq!(copy(true, false, &contents, path("toq")), Ok(1));
    assert_eq!(fs::read(path("toq/f")).unwrap(), b"p");
}

#[test]
fn links_are_not_written_through() {
    let scratch = Scratch::new("through");
    fs::create_dir_all(scratch.path("from/x")).unwrap();
    fs::write(scratch.path("from/x/f"), b"new").unwrap();
    fs::write(scratch.path("from/y"), b"new").unwrap();
    fs::create_dir_all(scratch.path("to")).unwrap();
    fs::create_dir_all(scratch.path("outside")).unwrap();
    fs::write(scratch.path("precious"), b"old").unwrap();
    symlink(scratch.path("outside"), scratch.path("to/x")).unwrap();
    symlink(scratch.path("precious"), scratch.path("to/y")).unwrap();
    assert_eq!(
        copy(true, false, &[scratch.path("from/.")], scratch.path("to")),
        Ok(1)
    );
    assert!(!scratch.path("outside/f").exists());
    assert_eq!(fs::read(scratch.path("precious")).unwrap(), b"old");
    assert_eq!(fs::read(scratch.path("to/y")).unwrap(), b"new");
}
