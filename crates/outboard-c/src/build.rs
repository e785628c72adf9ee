// SPDX-License-Identifier: GPL-2.0-only
//! Making, partitioning, checking and resizing images.

use crate::argument::{CancelFlag, Fill, In, Out, OutMemory, Text, Texts, Versioned};
use crate::memory::{Memory, Returned};
use crate::open::{check_flags, utf8, VolumeOptions};
use crate::result::{status, CallFailure, Result};
use crate::watch::{CallWatch, ProgressFunction};
use outboard_build::{
    Build, CheckMode, CheckOutcome, CheckPlan, DiskPlan, NewPartition, NewTable, SizeChange,
    TableKind, TablePlan, VolumePlan,
};
use std::ffi::{c_int, c_void, OsStr};
use std::path::PathBuf;
use std::ptr;

/// `struct ob_volume_make`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MakeOptions<'a> {
    size: usize,
    flags: u32,
    length: u64,
    from: Text<'a>,
    label: Text<'a>,
    uuid: Text<'a>,
    owner: Text<'a>,
    file_contexts: Text<'a>,
    tool_options: Texts<'a>,
    progress: Option<ProgressFunction>,
    progress_context: *mut c_void,
    cancel: CancelFlag<'a>,
}

// SAFETY: all of it holds; the function and the pointers may be NULL.
unsafe impl Versioned for MakeOptions<'_> {
    const LEAST: usize = size_of::<MakeOptions<'static>>();
    const NAME: &'static str = "ob_volume_make";
}

/// `struct ob_volume_table`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TableOptions<'a> {
    size: usize,
    flags: u32,
    kind: u32,
    length: u64,
    partitions: Texts<'a>,
    sector_size: u64,
}

// SAFETY: all of it holds; the pointer may be NULL.
unsafe impl Versioned for TableOptions<'_> {
    const LEAST: usize = size_of::<TableOptions<'static>>();
    const NAME: &'static str = "ob_volume_table";
}

/// `struct ob_volume_checked`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CheckedOut {
    size: usize,
    outcome: u32,
    kind: Returned,
    checker: Returned,
    output: Returned,
}

impl CheckedOut {
    const EMPTY: Self = Self {
        size: 0,
        outcome: 0,
        kind: Returned::NONE,
        checker: Returned::NONE,
        output: Returned::NONE,
    };
}

// SAFETY: all of it holds; the pointers may be NULL.
unsafe impl Versioned for CheckedOut {
    const LEAST: usize = size_of::<Self>();
    const NAME: &'static str = "ob_volume_checked";
}

const REPLACE: u32 = 1;
const REPRODUCIBLE: u32 = 2;
const FIT: u32 = 4;

const REPAIR: u32 = 1;
const REPAIR_SAFELY: u32 = 2;
const REPLAY: u32 = 4;

fn build(options: In<VolumeOptions>) -> Result<Build> {
    let options = options.get()?.map(VolumeOptions::to_options).transpose()?;
    Ok(options.map_or_else(Build::new, |options| Build::new().options(options)))
}

impl MakeOptions<'_> {
    fn add_to(&self, plan: VolumePlan) -> Result<VolumePlan> {
        check_flags(self.flags, REPLACE | REPRODUCIBLE | FIT)?;
        let text = |text: Text, what| {
            let text = text.optional().map(|text| utf8(text, what));
            Ok::<_, CallFailure>(text.transpose()?.map(str::to_owned))
        };
        let path = |text: Text| text.optional().map(PathBuf::from);
        Ok(VolumePlan {
            size: (self.length > 0).then_some(self.length),
            fit: self.flags & FIT != 0,
            from: path(self.from),
            label: text(self.label, "the label")?,
            uuid: text(self.uuid, "the UUID")?,
            reproducible: self.flags & REPRODUCIBLE != 0,
            owner: self.owner.optional().map(OsStr::to_owned),
            file_contexts: path(self.file_contexts),
            force: self.flags & REPLACE != 0,
            options: self
                .tool_options
                .all()
                .into_iter()
                .map(OsStr::to_owned)
                .collect(),
            ..plan
        })
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_make(
    name: Text,
    kind: Text,
    make: In<MakeOptions>,
    options: In<VolumeOptions>,
    warnings: OutMemory,
) -> c_int {
    status(|| {
        let warnings = warnings.optional(ptr::null_mut());
        let name = name.required("the name of the volume")?;
        let kind = utf8(kind.required("the type")?, "the type")?;
        let make = make.get()?;
        let plan = VolumePlan::new(name, kind);
        let plan = match &make {
            Some(make) => make.add_to(plan)?,
            None => plan,
        };
        let plan = DiskPlan::of_volume(plan);
        let watch = CallWatch {
            progress: make.and_then(|make| make.progress),
            context: make.map_or(ptr::null_mut(), |make| make.progress_context),
            cancel: make.map_or(CancelFlag::NONE, |make| make.cancel),
        };
        let build = build(options)?;
        let notes = watch.run("the work", |watched| match watched {
            None => Ok(build.make(&plan)?),
            Some(watched) => {
                let build = build.cancel(&watched.cancel);
                Ok(build.on_progress(watched.on_progress()).make(&plan)?)
            }
        })?;
        if let Some(warnings) = warnings {
            warnings.give(Memory::of(notes.join("\n").as_bytes())?);
        }
        Ok(())
    })
}

impl TableOptions<'_> {
    fn to_table(self) -> Result<NewTable> {
        check_flags(self.flags, REPLACE | REPRODUCIBLE)?;
        let kind = match self.kind {
            0 => TableKind::Gpt,
            1 => TableKind::Mbr,
            kind => return Err(CallFailure::usage(format!("there is no table {kind}"))),
        };
        let partition = |text: &OsStr| {
            let parsed = utf8(text, "a partition")?.parse::<NewPartition>();
            parsed.map_err(CallFailure::usage)
        };
        let partitions = self.partitions.all().into_iter().map(partition);
        Ok(NewTable {
            size: (self.length > 0).then_some(self.length),
            force: self.flags & REPLACE != 0,
            reproducible: self.flags & REPRODUCIBLE != 0,
            sector_size: (self.sector_size > 0).then_some(self.sector_size),
            ..NewTable::new(kind, self.length, partitions.collect::<Result<_>>()?)
        })
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_partition(
    image: Text,
    table: In<TableOptions>,
    options: In<VolumeOptions>,
) -> c_int {
    status(|| {
        let image = image.required("the name of the image")?;
        let no_table = || CallFailure::usage("the table is NULL");
        let table = table.get()?.ok_or_else(no_table)?.to_table()?;
        let plan = DiskPlan::of_table(image, TablePlan::Create(table));
        build(options)?.make(&plan)?;
        Ok(())
    })
}

fn mode_of(flags: u32) -> Result<CheckMode> {
    check_flags(flags, REPAIR | REPAIR_SAFELY | REPLAY)?;
    match flags & (REPAIR | REPAIR_SAFELY) {
        0 => Ok(CheckMode::Look),
        REPAIR => Ok(CheckMode::Mend),
        REPAIR_SAFELY => Ok(CheckMode::Automatic),
        _ => Err(CallFailure::usage("two kinds of repair are asked for")),
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_check(
    name: Text,
    flags: u32,
    options: In<VolumeOptions>,
    checked: Fill<CheckedOut>,
) -> c_int {
    status(|| {
        let result = checked.required()?;
        result.set(CheckedOut::EMPTY);
        let name = name.required("the name of the volume")?;
        let plan = CheckPlan {
            mode: mode_of(flags)?,
            replay: flags & REPLAY != 0,
            shown: false,
        };
        let checked = build(options)?.check(name, &plan)?;
        let outcome = match checked.outcome {
            CheckOutcome::Clean => 0,
            CheckOutcome::Corrected => 1,
            CheckOutcome::Errors => 2,
            CheckOutcome::Failed => 3,
        };
        let texts = [checked.kind, checked.checker, checked.output.as_str()];
        let [kind, checker, output] = texts.map(|text| Memory::of(text.as_bytes()));
        let (kind, checker, output) = (kind?, checker?, output?);
        result.set(CheckedOut {
            outcome,
            kind: Returned::of(kind),
            checker: Returned::of(checker),
            output: Returned::of(output),
            ..CheckedOut::EMPTY
        });
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_checked_free(checked: Fill<CheckedOut>) -> c_int {
    status(|| {
        if let Some((stored, place)) = checked.stored()? {
            for memory in [stored.kind, stored.checker, stored.output] {
                memory.free();
            }
            let outcome = stored.outcome;
            place.set(CheckedOut {
                outcome,
                ..CheckedOut::EMPTY
            });
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_resize(
    name: Text,
    length: u64,
    options: In<VolumeOptions>,
    result: Out<u64>,
) -> c_int {
    status(|| {
        let result = result.optional(0);
        let name = name.required("the name of the volume")?;
        let wanted = match length {
            0 => SizeChange::Least,
            u64::MAX => SizeChange::Most,
            length => SizeChange::To(length),
        };
        let resized = build(options)?.resize(name, wanted)?;
        if let Some(result) = result {
            result.set(resized.size);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_are_those_of_the_header() {
        assert_eq!(size_of::<MakeOptions>(), 96);
        assert_eq!(size_of::<TableOptions>(), 40);
        assert_eq!(size_of::<CheckedOut>(), 40);
    }

    #[test]
    fn modes_of_checks() {
        assert!(mode_of(REPLAY).is_ok_and(|mode| mode == CheckMode::Look));
        assert!(mode_of(REPAIR | REPLAY).is_ok_and(|mode| mode == CheckMode::Mend));
        assert!(mode_of(REPAIR | REPAIR_SAFELY).is_err());
        assert!(mode_of(8).is_err());
    }
}
