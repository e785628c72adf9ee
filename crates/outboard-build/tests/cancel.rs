// SPDX-License-Identifier: GPL-2.0-only
//! Calls that are cancelled while a tool runs, and what they leave. Its own process: it has tools
//! of its own in PATH, and counts what the process has open.

use outboard::Deadline;
use outboard_build::{Build, Cancel, CheckMode, CheckOutcome, CheckPlan, DiskPlan, ErrorKind};
use outboard_build::{Error, NewTable, TableKind, TablePlan, VolumePlan};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A tool that nobody waits for, which fails if somebody does.
const ENDLESS: &str = "sleep 60; exit 3";
/// A checker that takes its time, and then changes the image.
const SLOW: &str =
    "sleep 0.3; printf done | dd of=\"$last\" conv=notrunc seek=1000 bs=1 status=none";

struct Work {
    directory: TempDir,
    tools: PathBuf,
}

impl Work {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tools = directory.path().join("tools");
        fs::create_dir(&tools).unwrap();
        Self { directory, tools }
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("disk.img")
    }

    /// Puts a script in the place of a tool. Its last argument is `last`.
    fn tool(&self, name: &str, script: &str) {
        let path = self.tools.join(name);
        let text = format!("#!/bin/sh\nfor last; do :; done\n{script}\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn left(&self) -> usize {
        fs::read_dir(self.directory.path()).unwrap().count() - 1
    }
}

fn count(path: &str) -> usize {
    fs::read_dir(path).unwrap().count()
}

/// The processes that threads of this one have started.
fn children() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let children =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    children.map(|list| list.split_whitespace().count()).sum()
}

/// Cancels when a tool runs.
fn while_a_tool_runs<T>(cancel: &Cancel, call: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        scope.spawn(|| {
            while children() == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            cancel.cancel();
        });
        call()
    })
}

fn file_system(image: &Path) -> VolumePlan {
    VolumePlan {
        size: Some(16 << 20),
        ..VolumePlan::new(image, "ext4")
    }
}

/// A new disk whose file systems are made by an endless tool.
fn disk(image: &Path) -> DiskPlan {
    let table = NewTable::new(
        TableKind::Gpt,
        64 << 20,
        vec!["linux:rest".parse().unwrap()],
    );
    DiskPlan {
        image: image.to_owned(),
        table: Some(TablePlan::Create(table)),
        volumes: vec![VolumePlan::new(format!("{}@1", image.display()), "ext4")],
    }
}

fn check_stopped(error: &Error, kind: ErrorKind, work: &Work) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains("disk.img"), "{error}");
    assert!(error.message().contains("was not made"), "{error}");
    assert_eq!(error.path(), Some(work.image().as_path()));
    assert_eq!((work.left(), children()), (0, 0));
}

/// Every way to stop a call once.
fn all(work: &Work) {
    let image = work.image();
    work.tool("mke2fs", ENDLESS);
    for plan in [DiskPlan::of_volume(file_system(&image)), disk(&image)] {
        let cancel = Cancel::new();
        let build = Build::new().cancel(&cancel);
        let made = while_a_tool_runs(&cancel, || build.make(&plan));
        check_stopped(&made.unwrap_err(), ErrorKind::Interrupted, work);
    }
    let soon = Deadline::after(Duration::from_millis(50));
    let plan = DiskPlan::of_volume(file_system(&image));
    let late = soon.run(|| Build::new().make(&plan));
    check_stopped(&late.unwrap_err(), ErrorKind::TimedOut, work);
    fs::remove_file(work.tools.join("mke2fs")).unwrap();
    Build::new().make(&plan).unwrap();
    // A tool that works in an image is not killed.
    work.tool("e2fsck", SLOW);
    let cancel = Cancel::new();
    let build = Build::new().cancel(&cancel);
    let plan = CheckPlan {
        mode: CheckMode::Mend,
        replay: false,
        shown: false,
    };
    let checked = while_a_tool_runs(&cancel, || build.check(&image, &plan));
    assert_eq!(checked.unwrap().outcome, CheckOutcome::Clean);
    assert_eq!(&fs::read(&image).unwrap()[1000..1004], b"done");
    fs::remove_file(work.tools.join("e2fsck")).unwrap();
    fs::remove_file(&image).unwrap();
    assert_eq!((work.left(), children()), (0, 0));
}

#[test]
fn a_cancelled_tool_leaves_nothing() {
    let work = Work::new();
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::set_var("PATH", format!("{}:{path}", work.tools.display()));
    // The first call fills caches of the process.
    all(&work);
    let before = (count("/proc/self/fd"), count("/proc/self/task"));
    all(&work);
    assert_eq!((count("/proc/self/fd"), count("/proc/self/task")), before);
}
