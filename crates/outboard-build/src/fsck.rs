// SPDX-License-Identifier: GPL-2.0-only
//! Checks a file system by the distribution's own checker of its type.

use outboard_error::{report, Error, ErrorKind, Failure, Hint, Result};
use outboard_sandbox::tool::{Call, Tool, ToolFile};
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::image::missing_end;
use outboard_volume::image_lock::ImageLock;
use outboard_volume::session::{apart, Session};
use outboard_volume::tool_volume::{find_format, Fate, ToolVolume};

/// Results as fsck(8) has them: the bits of its exit code.
const GOOD: u8 = 0;
const MENDED: u8 = 1;
const BAD: u8 = 4;
const FAILED: u8 = 8;

/// How far a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMode {
    /// Only check: change nothing.
    Look,
    /// Repair everything.
    Mend,
    /// Make the repairs that are safe without a question.
    Automatic,
}

/// A check that is to be done.
#[derive(Clone, Copy, Debug)]
pub struct CheckPlan {
    /// How far it goes.
    pub mode: CheckMode,
    /// First replay the journal: mount and unmount the file system.
    pub replay: bool,
    /// Show the lines of the checker while it runs.
    pub shown: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// There are no errors.
    Clean,
    /// There are no errors any more.
    Corrected,
    /// There are errors.
    Errors,
    /// The check could not be made.
    Failed,
}

impl CheckOutcome {
    /// The meaning of the bits of fsck(8).
    fn of(code: u8) -> Self {
        match code {
            GOOD => Self::Clean,
            // fsck(8) adds 2 if a system that runs has to be booted again.
            1..=3 => Self::Corrected,
            code if code & BAD != 0 => Self::Errors,
            _ => Self::Failed,
        }
    }
}

/// A check that was done.
#[derive(Clone, Debug)]
pub struct CheckedVolume {
    /// The type of the file system, as in "ext4".
    pub kind: &'static str,
    /// The name of the tool.
    pub checker: &'static str,
    /// The findings of the tool.
    pub outcome: CheckOutcome,
    /// The same as fsck(8) says it: the bits of its exit code.
    pub code: u8,
    /// All that the tool printed.
    pub output: String,
    /// The volume lacks the end of its file system, which was reported.
    pub is_cut: bool,
    /// Its name for messages, with a partition that the caller left out.
    pub shown: String,
}

/// How a checker is called, and what its exit code means. Without words for a mode it has none.
struct Checker {
    kinds: &'static [&'static str],
    tool: Tool,
    look: Option<&'static [&'static str]>,
    mend: Option<&'static [&'static str]>,
    automatic: Option<&'static [&'static str]>,
    meaning: fn(code: i32, output: &[u8], mode: CheckMode) -> u8,
}

/// Tools that follow fsck(8).
fn as_fsck(code: i32, _: &[u8], _: CheckMode) -> u8 {
    u8::try_from(code).unwrap_or(FAILED)
}

/// fsck.fat ends with 1 for errors, corrected or not.
fn as_fat(code: i32, _: &[u8], mode: CheckMode) -> u8 {
    match (code, mode) {
        (0, _) => GOOD,
        (1, CheckMode::Look) => BAD,
        (1, _) => MENDED,
        _ => FAILED,
    }
}

/// xfs_repair -n ends with 1 for errors; with -e it ends with 4 if it corrected any, with 2 if
/// there is a log to replay.
fn as_xfs(code: i32, _: &[u8], mode: CheckMode) -> u8 {
    match (code, mode) {
        (0, _) => GOOD,
        (1, CheckMode::Look) | (2, _) => BAD,
        (4, CheckMode::Mend | CheckMode::Automatic) => MENDED,
        _ => FAILED,
    }
}

/// Anything but 0 is an error that is left.
fn as_yes_or_no(code: i32, _: &[u8], _: CheckMode) -> u8 {
    match code {
        0 => GOOD,
        _ => BAD,
    }
}

/// fsck.f2fs mostly ends with 0, and says what it found.
fn as_f2fs(code: i32, output: &[u8], mode: CheckMode) -> u8 {
    let text = String::from_utf8_lossy(output);
    let found = text.lines().any(|line| {
        line.contains("[ASSERT]") || line.contains("[FSCK]") && line.contains("[Fail]")
    });
    match (code, found, mode) {
        (0, false, _) => GOOD,
        (_, true, CheckMode::Look) => BAD,
        (0 | 1, _, CheckMode::Mend | CheckMode::Automatic) => MENDED,
        (_, true, _) => BAD,
        _ => FAILED,
    }
}

/// minix has 3 for corrected, 7 for partly.
fn as_minix(code: i32, _: &[u8], _: CheckMode) -> u8 {
    match code {
        0 => GOOD,
        3 => MENDED,
        4 | 7 => BAD,
        _ => FAILED,
    }
}

const CHECKERS: &[Checker] = &[
    Checker {
        kinds: &["ext2", "ext3", "ext4"],
        tool: Tool::new("e2fsck", "e2fsprogs"),
        look: Some(&["-f", "-n"]),
        mend: Some(&["-f", "-y"]),
        automatic: Some(&["-f", "-p"]),
        meaning: as_fsck,
    },
    Checker {
        kinds: &["xfs"],
        tool: Tool::new("xfs_repair", "xfsprogs"),
        look: Some(&["-n"]),
        mend: Some(&["-e"]),
        automatic: Some(&["-e"]),
        meaning: as_xfs,
    },
    Checker {
        kinds: &["btrfs"],
        tool: Tool::new("btrfs", "btrfs-progs"),
        look: Some(&["check", "--readonly"]),
        mend: Some(&["check", "--repair", "--force"]),
        automatic: Some(&["check", "--readonly"]),
        meaning: as_yes_or_no,
    },
    Checker {
        kinds: &["f2fs"],
        tool: Tool::new("fsck.f2fs", "f2fs-tools"),
        look: Some(&["--dry-run"]),
        mend: Some(&["-f", "-y"]),
        automatic: Some(&["-a"]),
        meaning: as_f2fs,
    },
    Checker {
        kinds: &["vfat"],
        tool: Tool::new("fsck.fat", "dosfstools"),
        look: Some(&["-n"]),
        mend: Some(&["-y"]),
        automatic: Some(&["-a"]),
        meaning: as_fat,
    },
    Checker {
        kinds: &["exfat"],
        tool: Tool::new("fsck.exfat", "exfatprogs"),
        look: Some(&["-n"]),
        mend: Some(&["-y"]),
        automatic: Some(&["-p"]),
        meaning: as_fsck,
    },
    Checker {
        kinds: &["ntfs", "ntfs3"],
        tool: Tool::new("ntfsfix", "ntfs-3g"),
        look: Some(&["-n"]),
        mend: Some(&["-d"]),
        automatic: Some(&["-d"]),
        meaning: as_yes_or_no,
    },
    Checker {
        kinds: &["jfs"],
        tool: Tool::new("jfs_fsck", "jfsutils"),
        look: Some(&["-n", "-f"]),
        mend: Some(&["-f", "-p"]),
        automatic: Some(&["-a"]),
        meaning: as_fsck,
    },
    Checker {
        kinds: &["minix"],
        tool: Tool::new("fsck.minix", "util-linux"),
        look: Some(&["-f"]),
        mend: Some(&["-f", "-a"]),
        automatic: Some(&["-a"]),
        meaning: as_minix,
    },
    Checker {
        kinds: &["erofs"],
        tool: Tool::new("fsck.erofs", "erofs-utils"),
        look: Some(&[]),
        mend: None,
        automatic: None,
        meaning: as_yes_or_no,
    },
    Checker {
        kinds: &["cramfs"],
        tool: Tool::new("fsck.cramfs", "util-linux"),
        look: Some(&[]),
        mend: None,
        automatic: None,
        meaning: as_yes_or_no,
    },
];

impl Checker {
    fn find(kind: &str) -> Option<&'static Self> {
        CHECKERS
            .iter()
            .find(|checker| checker.kinds.contains(&kind))
    }

    fn words(&self, mode: CheckMode) -> Option<&'static [&'static str]> {
        match mode {
            CheckMode::Look => self.look,
            CheckMode::Mend => self.mend,
            CheckMode::Automatic => self.automatic,
        }
    }
}

/// Checks a file system.
pub fn check(session: &mut Session, name: &ImageName, plan: &CheckPlan) -> Result<CheckedVolume> {
    let checked = check_named(session, name, plan);
    checked.map_err(|error| error.about(name.operand()))
}

fn check_named(session: &mut Session, name: &ImageName, plan: &CheckPlan) -> Result<CheckedVolume> {
    let mode = plan.mode;
    session.catch_interrupts();
    // Kept to the end: nobody changes the image between two steps.
    let _lock = if plan.replay {
        let mut volume = ToolVolume::find(session, name, false)?;
        let found = find_checker(&volume, mode).and_then(|_| find_cut(&volume, true));
        volume.release().and(found)?;
        drop(volume);
        Some(replay(session, name)?)
    } else {
        None
    };
    let mut volume = ToolVolume::find(session, name, mode != CheckMode::Look)?;
    let (checker, words) = find_checker(&volume, mode)?;
    let shown = volume.shown();
    let is_cut = find_cut(&volume, mode != CheckMode::Look)?;
    let (code, output, all_shown) = volume.work(mode != CheckMode::Look, |file| {
        let call = checker
            .tool
            .call(session.options().confinement())?
            .arguments(words)
            .shown(plan.shown);
        let (code, text, all_shown) = finish(checker, call, mode, file, &shown)?;
        // A checker that gave up leaves the volume as it was.
        let fate = match code {
            GOOD | MENDED | BAD => Fate::Keep,
            _ => Fate::Drop,
        };
        Ok((fate, (code, text, all_shown)))
    })?;
    all_shown?;
    let code = with_cut(code, is_cut);
    Ok(CheckedVolume {
        kind: volume.probe.kind,
        checker: checker.tool.name,
        outcome: CheckOutcome::of(code),
        code,
        output,
        is_cut,
        shown,
    })
}

/// The checker of a volume, and its arguments for this mode.
fn find_checker(
    volume: &ToolVolume,
    mode: CheckMode,
) -> Result<(&'static Checker, &'static [&'static str])> {
    let refused = |why: String| {
        let text = format!("{}: {why}", volume.shown());
        Error::known(ErrorKind::Unsupported, text)
    };
    let kind = volume.probe.kind;
    let checker = Checker::find(kind);
    let checker = checker.ok_or_else(|| refused(format!("there is no checker of {kind}")))?;
    let words = checker.words(mode);
    let words = words.ok_or_else(|| {
        refused(format!(
            "{} can only check{}",
            checker.tool.name,
            Hint::OnlyCheck
        ))
    })?;
    Ok((checker, words))
}

/// The result for a volume that may lack its end. A checker that failed has failed there too.
fn with_cut(code: u8, is_cut: bool) -> u8 {
    match code {
        GOOD..=3 if is_cut => BAD,
        code => code,
    }
}

/// Whether the volume lacks the end of its file system, which is reported. An error if `write`, a
/// change by a checker or the kernel: checkers write where the end was, and make the image longer.
fn find_cut(volume: &ToolVolume, write: bool) -> Result<bool> {
    let Some(text) = missing_end(&volume.probe, volume.range.size) else {
        return Ok(false);
    };
    let text = format!(
        "{}: {text}: it is cut off, and can only be checked{}",
        volume.shown(),
        Hint::OnlyCheck
    );
    let failure = Failure::new(ErrorKind::Incomplete, text).with_path(volume.name.operand());
    if write {
        return Err(failure.into());
    }
    report(failure);
    Ok(true)
}

/// Mounts the file system, and so replays its journal. The image stays locked.
fn replay(session: &mut Session, name: &ImageName) -> Result<ImageLock> {
    find_format(session, &name.file, true)?;
    let lock = ImageLock::take(&name.file, true)?;
    apart(session, &uses_image(name, true), |session| {
        let index = session.mount(name, true)?;
        let synced = session.mounted(index).sync();
        synced.map_err(|error| Error::of_file("cannot replay", name.operand(), &error))
    })?;
    Ok(lock)
}

/// Runs the checker. Returns what its end means, its output, and whether all of that was shown.
fn finish(
    checker: &Checker,
    call: Call,
    mode: CheckMode,
    file: &ToolFile,
    shown: &str,
) -> Result<(u8, String, Result<()>)> {
    let path = &file.path;
    let call = match mode {
        CheckMode::Look => call.reads(path),
        _ => call.changes(file),
    };
    let ended = call.argument(path).naming(path, shown).run()?;
    let failure = || ended.failure(&format!("cannot check {shown}"));
    let code = ended.code().ok_or_else(failure)?;
    let text = String::from_utf8_lossy(&ended.output).into_owned();
    // btrfs does not say whether it corrected something.
    let is_repair_of_btrfs = checker.kinds.contains(&"btrfs") && mode == CheckMode::Mend;
    let meaning = match (checker.meaning)(code, &ended.output, mode) {
        GOOD if is_repair_of_btrfs && !text.contains("no error found") => MENDED,
        other => other,
    };
    Ok((meaning, text, ended.shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_checker() {
        let kinds: Vec<&str> = CHECKERS
            .iter()
            .flat_map(|checker| checker.kinds)
            .copied()
            .collect();
        for (index, kind) in kinds.iter().enumerate() {
            assert!(!kinds[..index].contains(kind), "{kind}");
        }
        assert!(CHECKERS.iter().all(|checker| checker.look.is_some()));
    }

    #[test]
    fn meanings() {
        assert_eq!(as_fat(1, b"", CheckMode::Look), BAD);
        assert_eq!(as_fat(1, b"", CheckMode::Mend), MENDED);
        assert_eq!(as_xfs(2, b"", CheckMode::Mend), BAD);
        assert_eq!(as_f2fs(0, b"[FSCK] x [Fail]", CheckMode::Look), BAD);
        assert_eq!(as_f2fs(0, b"[FSCK] x [Ok..]", CheckMode::Mend), GOOD);
        let cut = [GOOD, MENDED, BAD, FAILED].map(|code| with_cut(code, true));
        assert_eq!(cut, [BAD, BAD, BAD, FAILED]);
        assert_eq!(with_cut(GOOD, false), GOOD);
    }
}
