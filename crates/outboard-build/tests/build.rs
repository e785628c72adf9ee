// SPDX-License-Identifier: GPL-2.0-only
//! Images that a program with several threads makes, checks and resizes.

use outboard_build::{
    Build, Cancel, CheckMode, CheckOutcome, CheckPlan, DiskPlan, ErrorKind, NewTable, Options,
    SizeChange, TableKind, TablePlan, VolumePlan,
};
use outboard_volume::{Disk, Volume};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use tempfile::TempDir;

const MEGABYTE: u64 = 1 << 20;

/// A directory with a directory "tree", which has a file.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("hello"), "hello\n").unwrap();
    directory
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A disk with an empty FAT and an ext4 of this tree.
fn disk(image: &Path, tree: &Path) -> DiskPlan {
    let partitions = ["esp:8M", "linux:rest"].map(|text| text.parse().unwrap());
    let table = NewTable::new(TableKind::Gpt, 64 * MEGABYTE, partitions.to_vec());
    let volume = |number: u32, kind| VolumePlan::new(format!("{}@{number}", image.display()), kind);
    let root = VolumePlan {
        from: Some(tree.to_owned()),
        ..volume(2, "ext4")
    };
    DiskPlan {
        image: image.to_owned(),
        table: Some(TablePlan::Create(table)),
        volumes: vec![volume(1, "vfat"), root],
    }
}

#[test]
fn a_table_and_file_systems_are_made_at_once() {
    let directory = directory();
    for name in ["disk.img", "disk.qcow2"] {
        let image = directory.path().join(name);
        let plan = disk(&image, &directory.path().join("tree"));
        Build::new().make(&plan).unwrap();
        let root = format!("{}@2", image.display());
        let volume = Volume::open(root, Options::new()).unwrap();
        assert_eq!(volume.read("/hello").unwrap(), b"hello\n");
        volume.close().unwrap();
        let again = Build::new().make(&plan).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
    }
    assert_eq!(names(directory.path()), ["disk.img", "disk.qcow2", "tree"]);
}

#[test]
fn file_systems_get_the_sectors_of_the_table() {
    let directory = directory();
    let image = directory.path().join("disk.img");
    let mut plan = disk(&image, &directory.path().join("tree"));
    if let Some(TablePlan::Create(table)) = &mut plan.table {
        table.sector_size = Some(4096);
    }
    Build::new().make(&plan).unwrap();
    let disk = Disk::open(&image, Options::new()).unwrap();
    assert_eq!(disk.sector_size().unwrap(), 4096);
    let root = disk.volume("2").unwrap();
    assert_eq!(root.read("/hello").unwrap(), b"hello\n");
    root.close().unwrap();
    disk.close().unwrap();
    let boot = &fs::read(&image).unwrap()[MEGABYTE as usize..];
    assert_eq!(boot[11..13], 4096u16.to_le_bytes());
}

#[test]
fn a_failure_leaves_nothing() {
    let directory = directory();
    let image = directory.path().join("disk.img");
    let plan = disk(&image, &directory.path().join("missing"));
    let error = Build::new().make(&plan).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.message().contains("missing"), "{error}");
    let missing = directory.path().join("missing");
    assert_eq!(error.path(), Some(missing.as_path()));
    let plan = disk(&image, &directory.path().join("tree"));
    let cancel = Cancel::new();
    cancel.cancel();
    let error = Build::new().cancel(&cancel).make(&plan).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(error.message().contains("disk.img was not made"), "{error}");
    assert_eq!(names(directory.path()), ["tree"]);
}

#[test]
fn errors_name_the_file() {
    let directory = directory();
    let image = directory.path().join("disk.img");
    let build = Build::new();
    let check = CheckPlan {
        mode: CheckMode::Look,
        replay: false,
        shown: false,
    };
    let checked = build.check(&image, &check).unwrap_err();
    let resized = build.resize(&image, SizeChange::Most).unwrap_err();
    for error in [&checked, &resized] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    fs::write(&image, "no disk").unwrap();
    let new = build.make(&disk(&image, directory.path())).unwrap_err();
    assert_eq!(new.kind(), ErrorKind::AlreadyExists, "{new}");
    let table = TablePlan::Delete(vec![1]);
    let deleted = build.make(&DiskPlan::of_table(&image, table)).unwrap_err();
    let volume = VolumePlan::new(&image, "ext4");
    let made = build.make(&DiskPlan::of_volume(volume)).unwrap_err();
    for error in [checked, resized, new, deleted, made] {
        assert_eq!(error.path(), Some(image.as_path()), "{error}");
    }
}

#[test]
fn progress_is_reported_and_can_cancel() {
    let directory = directory();
    let image = directory.path().join("disk.img");
    let plan = disk(&image, &directory.path().join("tree"));
    let cancels = Build::new().on_progress(|_| ControlFlow::Break(()));
    let error = cancels.make(&plan).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(error.message().contains("disk.img was not made"), "{error}");
    assert_eq!(names(directory.path()), ["tree"]);
    let files = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&files);
    let build = Build::new().on_progress(move |count| {
        counted.fetch_max(count.files, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    build.make(&plan).unwrap();
    assert!(files.load(Ordering::Relaxed) > 0);
}

#[test]
fn an_image_that_is_open_is_locked() {
    let directory = directory();
    let image = directory.path().join("disk.img");
    let plan = VolumePlan {
        size: Some(32 * MEGABYTE),
        ..VolumePlan::new(&image, "ext4")
    };
    let build = Build::new();
    build.make(&DiskPlan::of_volume(plan)).unwrap();
    let volume = Volume::open_writable(&image, Options::new()).unwrap();
    std::thread::scope(|scope| {
        let resize = || build.resize(&image, SizeChange::By(MEGABYTE));
        let error = scope.spawn(resize).join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    });
    volume.close().unwrap();
    let resized = build.resize(&image, SizeChange::By(MEGABYTE)).unwrap();
    assert_eq!(resized.size, 33 * MEGABYTE);
    let plan = CheckPlan {
        mode: CheckMode::Look,
        replay: false,
        shown: false,
    };
    let checked = build.check(&image, &plan).unwrap();
    assert_eq!(checked.outcome, CheckOutcome::Clean, "{checked:?}");
}
