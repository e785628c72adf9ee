// SPDX-License-Identifier: GPL-2.0-only
//! Copies of trees, and archives.

use crate::argument::{CancelFlag, Descriptor, Fill, In, Text, Versioned};
use crate::handle::{volume, Handle};
use crate::memory::{Memory, Returned};
use crate::open::check_flags;
use crate::result::{status, CallFailure, Result};
use crate::watch::{CallWatch, ProgressFunction};
use outboard::{HostTree, Tree};
use outboard_transfer::{Format, Keep, Summary, Transfer};
use outboard_volume::destination::of_open_volumes;
use outboard_volume::Error;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

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
    let watch = CallWatch {
        progress: options.progress,
        context: options.progress_context,
        cancel: options.cancel,
    };
    watch.run("the transfer", |watched| match watched {
        None => work(&transfer),
        Some(watched) => {
            let transfer = transfer.cancel(&watched.cancel);
            work(&transfer.on_progress(watched.on_progress()))
        }
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
