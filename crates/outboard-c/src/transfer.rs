// SPDX-License-Identifier: GPL-2.0-only
//! Copies of trees, and archives. A transfer with a callback for progress works on a thread of its
//! own, while the caller's thread calls back. So does one that another thread may cancel.

use crate::argument::{CancelFlag, Descriptor, Fill, In, Text, Versioned};
use crate::handle::{volume, Handle};
use crate::memory::{Memory, Returned};
use crate::open::check_flags;
use crate::result::{caught, in_callback, status, CallFailure, Result};
use outboard::{Cancel, HostTree, Limits, Tree};
use outboard_transfer::{Count, Format, Keep, Summary, Transfer};
use outboard_volume::destination::of_open_volumes;
use outboard_volume::Error;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::ops::ControlFlow;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// `struct ob_volume_progress`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ProgressOut {
    size: usize,
    files: u64,
    bytes: u64,
    total: u64,
}

type ProgressFunction = extern "C" fn(*mut c_void, *const ProgressOut) -> c_int;

/// `struct ob_volume_transfer`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TransferOptions<'a> {
    size: usize,
    flags: u32,
    compression: u32,
    progress: Option<ProgressFunction>,
    progress_context: *mut c_void,
    cancel: CancelFlag<'a>,
}

// SAFETY: all of it holds; the function and the pointers may be NULL.
unsafe impl Versioned for TransferOptions<'_> {
    const LEAST: usize = size_of::<TransferOptions<'static>>();
    const NAME: &'static str = "ob_volume_transfer";
}

/// `struct ob_volume_summary`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SummaryOut {
    size: usize,
    files: u64,
    bytes: u64,
    warnings: Returned,
}

// SAFETY: all of it holds; the pointer may be NULL.
unsafe impl Versioned for SummaryOut {
    const LEAST: usize = size_of::<Self>();
    const NAME: &'static str = "ob_volume_summary";
}

const FOLLOW: u32 = 1;
const CONTENTS: u32 = 2;
const FORCE: u32 = 4;

/// How often the caller hears of the progress.
const PAUSE: Duration = Duration::from_millis(100);

/// How far a transfer is, for the caller's thread.
type Latest = Mutex<ProgressOut>;

fn store(latest: &Latest, count: &Count) {
    *latest.lock().unwrap_or_else(PoisonError::into_inner) = ProgressOut {
        size: size_of::<ProgressOut>(),
        files: count.files,
        bytes: count.bytes,
        total: count.total.unwrap_or(0),
    };
}

/// Reports progress and polls for cancellation on the caller's thread, while another one works.
struct Watcher<'a> {
    options: &'a TransferOptions<'a>,
    latest: Arc<Latest>,
    cancel: Cancel,
}

impl Watcher<'_> {
    /// Calls back, and looks whether to cancel, until the work is done. After a cancel nobody is
    /// called back.
    fn wait(&self, work: &Receiver<Result<Summary>>) -> Result<Summary> {
        loop {
            match work.recv_timeout(PAUSE) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "the thread of the transfer has ended";
                    return Err(CallFailure::internal(text.to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {}
                Err(RecvTimeoutError::Timeout) if self.is_cancelled() => self.cancel.cancel(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        let flag = self.options.cancel.get();
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0) {
            return true;
        }
        let Some(function) = self.options.progress else {
            return false;
        };
        let progress = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        in_callback(|| function(self.options.progress_context, &progress)) != 0
    }
}

fn default_options<'a>() -> TransferOptions<'a> {
    TransferOptions {
        size: 0,
        flags: 0,
        compression: 0,
        progress: None,
        progress_context: ptr::null_mut(),
        cancel: CancelFlag::NONE,
    }
}

fn format_of(compression: u32) -> Result<Format> {
    match compression {
        0 => Ok(Format::Plain),
        1 => Ok(Format::Gzip),
        2 => Ok(Format::Zstd),
        3 => Ok(Format::Xz),
        _ => Err(CallFailure::usage(format!(
            "there is no compression {compression}"
        ))),
    }
}

/// Does the work: on this thread, or beside it if the caller may cancel it.
fn run(
    options: &TransferOptions,
    record: &Arc<Mutex<Summary>>,
    work: impl FnOnce(&Transfer) -> Result<Summary> + Send,
) -> Result<Summary> {
    let keep = match options.flags & CONTENTS {
        0 => Keep::Everything,
        _ => Keep::Nothing,
    };
    let transfer = Transfer::new()
        .keep(keep)
        .record(record)
        .follow(options.flags & FOLLOW != 0)
        .force(options.flags & FORCE != 0);
    if options.progress.is_none() && options.cancel.get().is_none() {
        return work(&transfer);
    }
    let latest = Arc::new(Latest::default());
    store(&latest, &Count::default());
    let watcher = Watcher {
        options,
        latest: Arc::clone(&latest),
        cancel: Cancel::default(),
    };
    let transfer = transfer.cancel(&watcher.cancel).on_progress(move |count| {
        store(&latest, count);
        ControlFlow::Continue(())
    });
    // A caller that has cancelled it before gets no copy.
    if watcher.is_cancelled() {
        watcher.cancel.cancel();
    }
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let limits = Limits::current();
        let worker = move || {
            // The receiver outlives this thread.
            let _ = sender.send(caught(|| limits.run(|| work(&transfer))));
        };
        thread::Builder::new()
            .spawn_scoped(scope, worker)
            .map_err(|error| CallFailure::of_io("cannot start a thread for the transfer", error))?;
        watcher.wait(&receiver)
    })
}

/// A whole call: checks what all transfers have, does the work, fills the summary.
fn transfer(
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
    work: impl FnOnce(&Transfer, Format) -> Result<Summary> + Send,
) -> Result<()> {
    let summary = summary.optional()?;
    if let Some(summary) = &summary {
        summary.set(summary_out(&Summary::default())?);
    }
    let options = options.get()?.unwrap_or_else(default_options);
    check_flags(options.flags, FOLLOW | CONTENTS | FORCE)?;
    let format = format_of(options.compression)?;
    let counts = Arc::default();
    let done = run(&options, &counts, |transfer| work(transfer, format));
    let Some(summary) = summary else {
        return done.map(drop);
    };
    match done {
        Ok(done) => summary.set(summary_out(&done)?),
        Err(failure) => {
            let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            summary.set(summary_out(&counts)?);
            return Err(failure);
        }
    }
    Ok(())
}

/// An archive that is an open image would change while it is read.
fn check_archive(archive: &File) -> Result<()> {
    let metadata = archive.metadata().ok();
    let checked = of_open_volumes().check_source(metadata.as_ref(), "the archive");
    Ok(checked.map_err(Error::from)?)
}

fn summary_out(summary: &Summary) -> Result<SummaryOut> {
    let warnings = if summary.warnings.is_empty() {
        Returned::NONE
    } else {
        Returned::of(Memory::of(summary.warnings.join("\n").as_bytes())?)
    };
    Ok(SummaryOut {
        size: 0,
        files: summary.files,
        bytes: summary.bytes,
        warnings,
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_summary_free(summary: Fill<SummaryOut>) -> c_int {
    status(|| {
        if let Some((stored, place)) = summary.stored()? {
            stored.warnings.free();
            place.set(SummaryOut {
                warnings: Returned::NONE,
                ..stored
            });
        }
        Ok(())
    })
}

/// One end of a copy.
enum CopyEnd {
    Host,
    Volume(Handle),
}

impl CopyEnd {
    /// Calls `work` with the tree of this end, whose volume stays open meanwhile.
    fn with_tree<T>(self, work: impl FnOnce(&Tree) -> Result<T>) -> Result<T> {
        match self {
            Self::Host => work(HostTree.as_tree()),
            Self::Volume(handle) => {
                let volume = volume(handle)?;
                work(&volume)
            }
        }
    }
}

/// A path at one end, and its name in messages.
type Place<'a> = (CopyEnd, Text<'a>, &'static str);

fn copy(
    (from, from_path, from_name): Place,
    (to, to_path, to_name): Place,
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
) -> c_int {
    status(|| {
        let from_path = from_path.required(from_name)?;
        let to_path = to_path.required(to_name)?;
        from.with_tree(|from| {
            to.with_tree(|to| {
                transfer(options, summary, |transfer, _| {
                    Ok(transfer.copy(from, from_path, to, to_path)?)
                })
            })
        })
    })
}

const HOST_PATH: &str = "the path of the host";
const VOLUME_PATH: &str = "the path in the volume";

#[no_mangle]
pub extern "C" fn ob_volume_copy_in(
    host_path: Text,
    to: Handle,
    to_path: Text,
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
) -> c_int {
    let from = (CopyEnd::Host, host_path, HOST_PATH);
    copy(
        from,
        (CopyEnd::Volume(to), to_path, VOLUME_PATH),
        options,
        summary,
    )
}

#[no_mangle]
pub extern "C" fn ob_volume_copy_out(
    from: Handle,
    from_path: Text,
    host_path: Text,
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
) -> c_int {
    let from = (CopyEnd::Volume(from), from_path, VOLUME_PATH);
    copy(
        from,
        (CopyEnd::Host, host_path, HOST_PATH),
        options,
        summary,
    )
}

#[no_mangle]
pub extern "C" fn ob_volume_copy(
    from: Handle,
    from_path: Text,
    to: Handle,
    to_path: Text,
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
) -> c_int {
    let from = (CopyEnd::Volume(from), from_path, "the path of the source");
    let to = (CopyEnd::Volume(to), to_path, "the path of the copy");
    copy(from, to, options, summary)
}

#[no_mangle]
pub extern "C" fn ob_volume_tar_out(
    from: Handle,
    directory: Text,
    archive: Descriptor,
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
) -> c_int {
    status(|| {
        let directory = directory.required("the directory")?;
        let from = volume(from)?;
        let from: &Tree = &from;
        let archive = archive.duplicate()?;
        transfer(options, summary, |transfer, format| {
            Ok(transfer.pack_file(from, directory, &archive, format)?)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_tar_in(
    archive: Descriptor,
    to: Handle,
    directory: Text,
    options: In<TransferOptions>,
    summary: Fill<SummaryOut>,
) -> c_int {
    status(|| {
        let directory = directory.required("the directory")?;
        let to = volume(to)?;
        let to: &Tree = &to;
        let archive = archive.duplicate()?;
        check_archive(&archive)?;
        transfer(options, summary, |transfer, _| {
            Ok(transfer.unpack_file(archive, to, directory)?)
        })
    })
}
