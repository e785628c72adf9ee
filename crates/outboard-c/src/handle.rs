// SPDX-License-Identifier: GPL-2.0-only
//! Handles of volumes, disks and files. A handle is a number in the shape of a pointer, which this
//! library never dereferences. No two objects of a process ever have the same number, so a stale
//! handle is always found.
//!
//! | state of a volume or disk | in the table | calls |
//! |---|---|---|
//! | open | yes | each has a clone of the `Arc` ([`InUse`]) |
//! | closing: [`take_volume`], [`take_disk`] wait | no | those that began before |
//! | closed | no | none: the `Arc` has one owner |
//!
//! Tables belong to one process. A child of fork() begins with empty ones and leaves its parent's
//! alone, because other threads may have locked them.

use crate::fork::forks;
use crate::result::{is_in_callback, CallFailure, Result};
use outboard::{Cancel, File};
use outboard_volume::{Disk, ErrorKind, Volume};
use std::collections::HashMap;
use std::ffi::{c_void, OsString};
use std::mem::forget;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A `struct ob_volume *` of the caller, or one of `ob_volume_file`, `ob_volume_disk`,
/// `ob_volume_cancel`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Handle(*mut c_void);

/// Low bits of a handle: its type. User code that dereferences one gets a fault at once.
const VOLUME: usize = 1;
const FILE: usize = 2;
const DISK: usize = 3;
const CANCEL: usize = 4;
const STEP: usize = 8;

impl Handle {
    pub const NONE: Self = Self(ptr::null_mut());

    fn of(number: usize) -> Self {
        Self(ptr::without_provenance_mut(number))
    }

    fn number(self) -> usize {
        self.0.addr()
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// How long a close waits before it looks whether the kernel lives.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The first number that no handle has had yet, without the type.
static NEXT: AtomicUsize = AtomicUsize::new(STEP);

fn new_number(kind: usize) -> usize {
    NEXT.fetch_add(STEP, Ordering::Relaxed) + kind
}

/// An open file, with the path that it was opened by.
pub struct NamedFile {
    pub file: File,
    pub path: OsString,
}

struct OpenFile {
    /// The number of its volume.
    volume: usize,
    file: Arc<NamedFile>,
}

#[derive(Default)]
struct Objects {
    volumes: HashMap<usize, Arc<Volume>>,
    files: HashMap<usize, OpenFile>,
    disks: HashMap<usize, Arc<Disk>>,
    cancels: HashMap<usize, Cancel>,
}

impl Objects {
    /// Removes the files of a volume. The caller closes them without the lock.
    fn take_files(&mut self, volume: usize) -> Vec<Arc<NamedFile>> {
        let mut files = Vec::new();
        self.files.retain(|_, open| {
            if open.volume == volume {
                files.push(Arc::clone(&open.file));
            }
            open.volume != volume
        });
        files
    }
}

struct Tables {
    /// The value of [`forks`] in the process that they belong to.
    forks: u64,
    /// Handles with lower numbers are of a parent of this process.
    first: usize,
    objects: Mutex<Objects>,
    /// A call has ended.
    ended: Condvar,
}

impl Tables {
    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tables of this process.
fn tables() -> &'static Tables {
    static TABLES: AtomicPtr<Tables> = AtomicPtr::new(ptr::null_mut());
    loop {
        let current = TABLES.load(Ordering::Acquire);
        // SAFETY: NULL, or what Box::leak returned below.
        if let Some(tables) = unsafe { current.as_ref() } {
            if tables.forks == forks() {
                return tables;
            }
        }
        let new = Box::leak(Box::new(Tables {
            forks: forks(),
            first: NEXT.load(Ordering::Relaxed),
            objects: Mutex::default(),
            ended: Condvar::new(),
        }));
        // The tables of the parent, or of a thread that loses here, are never used again.
        let _ = TABLES.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Why there is no object of this handle.
fn no_object(handle: Handle, kind: usize) -> CallFailure {
    let number = handle.number();
    let what = match kind {
        VOLUME => "volume",
        DISK => "disk",
        FILE => "file",
        _ => "canceller",
    };
    if number == 0 {
        return CallFailure::usage(format!("the {what} is NULL"));
    }
    if number % STEP != kind || number >= NEXT.load(Ordering::Relaxed) {
        return CallFailure::usage(format!("{number:#x} is no handle of a {what}"));
    }
    let why = if number < tables().first {
        "belongs to the parent of this process: open it again here"
    } else {
        "was closed"
    };
    CallFailure::new(
        ErrorKind::Closed,
        format!("the {what} of this handle {why}"),
    )
}

/// A volume or a disk during a call.
pub struct InUse<T = Volume> {
    /// `None` only while it is dropped.
    object: Option<Arc<T>>,
    tables: &'static Tables,
}

impl<T> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.object.as_ref().expect("there until it is dropped")
    }
}

impl<T> Drop for InUse<T> {
    fn drop(&mut self) {
        drop(self.object.take());
        // A child of a callback that forked: another thread may have held the lock then.
        if self.tables.forks != forks() {
            return;
        }
        // With the lock, so that a thread that has just counted owners gets to wait first.
        let _objects = self.tables.lock();
        self.tables.ended.notify_all();
    }
}

fn volume_of_number(number: usize) -> Option<InUse> {
    let tables = tables();
    let volume = tables.lock().volumes.get(&number).map(Arc::clone);
    volume.map(|volume| InUse {
        object: Some(volume),
        tables,
    })
}

/// The volume of a handle, which stays open until the result is dropped.
pub fn volume(handle: Handle) -> Result<InUse> {
    volume_of_number(handle.number()).ok_or_else(|| no_object(handle, VOLUME))
}

pub fn add_volume(volume: Volume) -> Handle {
    let number = new_number(VOLUME);
    tables().lock().volumes.insert(number, Arc::new(volume));
    Handle::of(number)
}

/// The disk of a handle, which stays open until the result is dropped.
pub fn disk(handle: Handle) -> Result<InUse<Disk>> {
    let tables = tables();
    let disk = tables.lock().disks.get(&handle.number()).map(Arc::clone);
    match disk {
        Some(disk) => Ok(InUse {
            object: Some(disk),
            tables,
        }),
        None => Err(no_object(handle, DISK)),
    }
}

pub fn add_disk(disk: Disk) -> Handle {
    let number = new_number(DISK);
    tables().lock().disks.insert(number, Arc::new(disk));
    Handle::of(number)
}

fn check_close(what: &str) -> Result<()> {
    if is_in_callback() {
        let text = format!("a callback must not close a {what}: let the call end first");
        return Err(CallFailure::usage(text));
    }
    Ok(())
}

/// Waits until no call uses an object, which is in no table any more. `check`: whether its kernel
/// takes calls.
fn without_calls<'a, T>(
    tables: &'a Tables,
    mut objects: MutexGuard<'a, Objects>,
    mut object: Arc<T>,
    check: impl Fn(&T) -> outboard_volume::Result<()>,
) -> Result<(MutexGuard<'a, Objects>, T)> {
    loop {
        object = match Arc::try_unwrap(object) {
            Ok(object) => return Ok((objects, object)),
            Err(object) => object,
        };
        if let Err(reason) = check(&object) {
            // The kernel panicked: threads may stay in it for ever.
            forget(object);
            return Err(reason.into());
        }
        let waited = tables.ended.wait_timeout(objects, LOOK_AGAIN);
        objects = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Ends a handle: waits for calls, closes its files, gives the volume.
pub fn take_volume(handle: Handle) -> Result<Volume> {
    check_close("volume")?;
    let (tables, number) = (tables(), handle.number());
    let mut objects = tables.lock();
    let removed = objects.volumes.remove(&number);
    let volume = removed.ok_or_else(|| no_object(handle, VOLUME))?;
    let (mut objects, volume) = without_calls(tables, objects, volume, Volume::check)?;
    // No call is left that could open or use a file.
    let files = objects.take_files(number);
    drop(objects);
    drop(files);
    Ok(volume)
}

/// Ends a handle: waits for calls, gives the disk.
pub fn take_disk(handle: Handle) -> Result<Disk> {
    check_close("disk")?;
    let tables = tables();
    let mut objects = tables.lock();
    let removed = objects.disks.remove(&handle.number());
    let disk = removed.ok_or_else(|| no_object(handle, DISK))?;
    let (objects, disk) = without_calls(tables, objects, disk, Disk::check)?;
    drop(objects);
    Ok(disk)
}

/// A file during a call. The fields are dropped in this order: a volume has no open files when its
/// last call ends.
pub struct FileInUse {
    file: Arc<NamedFile>,
    pub volume: InUse,
}

impl Deref for FileInUse {
    type Target = NamedFile;

    fn deref(&self) -> &NamedFile {
        &self.file
    }
}

/// The volume of a file, in use.
fn volume_of_file(handle: Handle) -> Result<InUse> {
    let number = handle.number();
    let found = tables().lock().files.get(&number).map(|open| open.volume);
    let volume = found.and_then(volume_of_number);
    volume.ok_or_else(|| no_object(handle, FILE))
}

/// The file of a handle, which stays open until the result is dropped.
pub fn file(handle: Handle) -> Result<FileInUse> {
    let volume = volume_of_file(handle)?;
    let tables = volume.tables;
    let file = tables
        .lock()
        .files
        .get(&handle.number())
        .map(|open| Arc::clone(&open.file));
    match file {
        Some(file) => Ok(FileInUse { file, volume }),
        None => Err(no_object(handle, FILE)),
    }
}

/// `volume` is the handle of the file's volume, which is in use.
pub fn add_file(volume: Handle, file: NamedFile) -> Handle {
    let number = new_number(FILE);
    let open = OpenFile {
        volume: volume.number(),
        file: Arc::new(file),
    };
    tables().lock().files.insert(number, open);
    Handle::of(number)
}

/// Ends a handle of a file.
pub fn take_file(handle: Handle) -> Result<()> {
    let volume = volume_of_file(handle)?;
    let removed = volume.tables.lock().files.remove(&handle.number());
    // Before the call stops to use the volume.
    removed.map(drop).ok_or_else(|| no_object(handle, FILE))
}

pub fn add_cancel() -> Handle {
    let number = new_number(CANCEL);
    tables().lock().cancels.insert(number, Cancel::new());
    Handle::of(number)
}

pub fn cancel(handle: Handle) -> Result<Cancel> {
    let found = tables().lock().cancels.get(&handle.number()).cloned();
    found.ok_or_else(|| no_object(handle, CANCEL))
}

/// Ends a handle of a canceller.
pub fn take_cancel(handle: Handle) -> Result<()> {
    let removed = tables().lock().cancels.remove(&handle.number());
    removed.map(drop).ok_or_else(|| no_object(handle, CANCEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_handles() {
        for number in [0, VOLUME, FILE, DISK, CANCEL, usize::MAX] {
            assert!(volume(Handle::of(number)).is_err());
            assert!(file(Handle::of(number)).is_err());
            assert!(take_file(Handle::of(number)).is_err());
            assert!(cancel(Handle::of(number)).is_err());
            assert!(take_cancel(Handle::of(number)).is_err());
            assert!(take_volume(Handle::of(number)).is_err());
            assert!(disk(Handle::of(number)).is_err());
            assert!(take_disk(Handle::of(number)).is_err());
        }
    }
}
