// SPDX-License-Identifier: GPL-2.0-only
//! `outboard fsck`: the distribution's own checker of the type that is found.

use crate::commands::uses_image;
use crate::exit_code::CHECK_FAILED;
use crate::output::Output;
use crate::record::Bytes;
use clap::Args;
use outboard_error::{report, Error, ErrorKind, Failure, Result};
use outboard_sandbox::tool::{Call, Tool, ToolFile};
use outboard_volume::address::ImageName;
use outboard_volume::image::missing_end;
use outboard_volume::image_lock::ImageLock;
use outboard_volume::session::{apart, Session};
use outboard_volume::tool_volume::{find_format, Fate, ToolVolume};
use serde::Serialize;
use std::ffi::OsString;

/// Exit codes of fsck(8).
const GOOD: u8 = 0;
const MENDED: u8 = 1;
const BAD: u8 = 4;
pub const FAILED: u8 = CHECK_FAILED;

/// Check and repair a file system
///
/// Without an option, fsck only checks, as with -n. Exit codes are those of fsck(8): 0 no errors, 1
/// errors corrected, 4 errors left, 8 the check failed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard fsck disk.img@2\
                        \n  outboard fsck -y disk.img@2\
                        \n  outboard fsck --replay -y data.xfs\
                        \n  outboard fsck -y cloud.qcow2@1\
                        \n  outboard fsck -y server.img@vg0/root\
                        \n  outboard --key-file key fsck laptop.img@3")]
pub struct FsckArgs {
    /// The image, IMAGE@N for a partition, or IMAGE@NAME for a volume
    pub image: OsString,
    /// Only check: change nothing [default]
    #[arg(short = 'n', group = "mode")]
    pub look: bool,
    /// Repair everything
    #[arg(short = 'y', group = "mode")]
    pub mend: bool,
    /// Make the repairs that are safe without a question
    #[arg(short = 'a', visible_short_alias = 'p', group = "mode")]
    pub automatic: bool,
    /// First replay the journal: mount and unmount the file system
    #[arg(long)]
    pub replay: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Look,
    Mend,
    Automatic,
}

/// How a checker is called, and what its exit code means. Without words for a mode it has none.
struct Checker {
    kinds: &'static [&'static str],
    tool: Tool,
    look: Option<&'static [&'static str]>,
    mend: Option<&'static [&'static str]>,
    automatic: Option<&'static [&'static str]>,
    meaning: fn(code: i32, output: &[u8], mode: Mode) -> u8,
}

/// Tools that follow fsck(8).
fn as_fsck(code: i32, _: &[u8], _: Mode) -> u8 {
    u8::try_from(code).unwrap_or(FAILED)
}

/// fsck.fat ends with 1 for errors, corrected or not.
fn as_fat(code: i32, _: &[u8], mode: Mode) -> u8 {
    match (code, mode) {
        (0, _) => GOOD,
        (1, Mode::Look) => BAD,
        (1, _) => MENDED,
        _ => FAILED,
    }
}

/// xfs_repair -n ends with 1 for errors; with -e it ends with 4 if it corrected any, with 2 if
/// there is a log to replay.
fn as_xfs(code: i32, _: &[u8], mode: Mode) -> u8 {
    match (code, mode) {
        (0, _) => GOOD,
        (1, Mode::Look) | (2, _) => BAD,
        (4, Mode::Mend | Mode::Automatic) => MENDED,
        _ => FAILED,
    }
}

/// Anything but 0 is an error that is left.
fn as_yes_or_no(code: i32, _: &[u8], _: Mode) -> u8 {
    match code {
        0 => GOOD,
        _ => BAD,
    }
}

/// fsck.f2fs mostly ends with 0, and says what it found.
fn as_f2fs(code: i32, output: &[u8], mode: Mode) -> u8 {
    let text = String::from_utf8_lossy(output);
    let found = text.lines().any(|line| {
        line.contains("[ASSERT]") || line.contains("[FSCK]") && line.contains("[Fail]")
    });
    match (code, found, mode) {
        (0, false, _) => GOOD,
        (_, true, Mode::Look) => BAD,
        (0 | 1, _, Mode::Mend | Mode::Automatic) => MENDED,
        (_, true, _) => BAD,
        _ => FAILED,
    }
}

/// minix has 3 for corrected, 7 for partly.
fn as_minix(code: i32, _: &[u8], _: Mode) -> u8 {
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

    fn words(&self, mode: Mode) -> Option<&'static [&'static str]> {
        match mode {
            Mode::Look => self.look,
            Mode::Mend => self.mend,
            Mode::Automatic => self.automatic,
        }
    }
}

/// A check that was done. People read the output of the checker itself.
#[derive(Serialize)]
struct Check {
    #[serde(flatten)]
    volume: Bytes<'static>,
    #[serde(rename = "type")]
    kind: &'static str,
    checker: &'static str,
    result: &'static str,
    output: String,
}

/// An exit code in a word.
fn word(code: u8) -> &'static str {
    match code {
        GOOD => "clean",
        // fsck(8) adds 2 if a system that runs has to be booted again.
        1..=3 => "corrected",
        code if code & BAD != 0 => "errors",
        _ => "failed",
    }
}

pub fn run(options: &FsckArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    match check(options, session, output)? {
        GOOD => Ok(()),
        code => Err(Error::Status(code)),
    }
}

fn check(options: &FsckArgs, session: &mut Session, output: &mut Output) -> Result<u8> {
    let mode = match (options.mend, options.automatic) {
        (true, _) => Mode::Mend,
        (_, true) => Mode::Automatic,
        _ => Mode::Look,
    };
    let name = ImageName::find(&options.image);
    session.catch_interrupts();
    // Kept to the end: nobody changes the image between two steps.
    let _lock = if options.replay {
        let mut volume = ToolVolume::find(session, &name, false)?;
        let found = find_checker(&volume, mode).and_then(|_| find_cut(&volume, true));
        volume.release().and(found)?;
        drop(volume);
        Some(replay(session, &name)?)
    } else {
        None
    };
    let mut volume = ToolVolume::find(session, &name, mode != Mode::Look)?;
    let kind = volume.probe.kind;
    let (checker, words) = find_checker(&volume, mode)?;
    let shown = volume.shown();
    let is_cut = find_cut(&volume, mode != Mode::Look)?;
    let is_json = output.is_json();
    let (code, text, all_shown) = volume.work(mode != Mode::Look, |file| {
        let call = checker
            .tool
            .call(session.options().confinement())?
            .arguments(words)
            .shown(!is_json);
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
    let check = Check {
        volume: Bytes::new("volume", name.operand()),
        kind,
        checker: checker.tool.name,
        result: word(code),
        output: text,
    };
    output.json_member("check", &check)?;
    let left = match check.result {
        "errors" if !is_cut => Some((ErrorKind::Damaged, next_step(&volume, mode))),
        "failed" => {
            let text = format!("cannot check {shown}: {} failed", check.checker);
            Some((ErrorKind::Other, text))
        }
        _ => None,
    };
    if let Some((kind, text)) = left {
        report(Failure::new(kind, text).with_path(name.operand()));
    }
    Ok(code)
}

/// The checker of a volume, and its arguments for this mode.
fn find_checker(
    volume: &ToolVolume,
    mode: Mode,
) -> Result<(&'static Checker, &'static [&'static str])> {
    let refused = |why: String| {
        let text = format!("{}: {why}", volume.shown());
        Error::known(ErrorKind::Unsupported, text)
    };
    let kind = volume.probe.kind;
    let checker = Checker::find(kind);
    let checker = checker.ok_or_else(|| refused(format!("there is no checker of {kind}")))?;
    let words = checker.words(mode);
    let words =
        words.ok_or_else(|| refused(format!("{} can only check (-n)", checker.tool.name)))?;
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
        "{}: {text}: it is cut off, and can only be checked (-n)",
        volume.shown()
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
    mode: Mode,
    file: &ToolFile,
    shown: &str,
) -> Result<(u8, String, Result<()>)> {
    let path = &file.path;
    let call = match mode {
        Mode::Look => call.reads(path),
        _ => call.changes(file),
    };
    let ended = call.argument(path).naming(path, shown).run()?;
    let failure = || ended.failure(&format!("cannot check {shown}"));
    let code = ended.code().ok_or_else(failure)?;
    let text = String::from_utf8_lossy(&ended.output).into_owned();
    // btrfs does not say whether it corrected something.
    let is_repair_of_btrfs = checker.kinds.contains(&"btrfs") && mode == Mode::Mend;
    let meaning = match (checker.meaning)(code, &ended.output, mode) {
        GOOD if is_repair_of_btrfs && !text.contains("no error found") => MENDED,
        other => other,
    };
    Ok((meaning, text, ended.shown))
}

/// Advice about errors that are left.
fn next_step(volume: &ToolVolume, mode: Mode) -> String {
    let shown = volume.shown();
    match (volume.probe.kind, mode) {
        ("xfs", Mode::Mend | Mode::Automatic) => format!(
            "{shown}: its log has to be replayed before it can be repaired: outboard fsck --replay \
             -y {shown}"
        ),
        ("btrfs", Mode::Look | Mode::Automatic) => format!(
            "{shown} has errors; -y repairs with \"btrfs check --repair\", which its makers call \
             dangerous: copy the image first"
        ),
        (_, Mode::Look | Mode::Automatic) => {
            format!("{shown} has errors: outboard fsck -y {shown} repairs them")
        }
        (_, Mode::Mend) => format!("{shown} still has errors"),
    }
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
        assert_eq!(as_fat(1, b"", Mode::Look), BAD);
        assert_eq!(as_fat(1, b"", Mode::Mend), MENDED);
        assert_eq!(as_xfs(2, b"", Mode::Mend), BAD);
        assert_eq!(as_f2fs(0, b"[FSCK] x [Fail]", Mode::Look), BAD);
        assert_eq!(as_f2fs(0, b"[FSCK] x [Ok..]", Mode::Mend), GOOD);
        let cut = [GOOD, MENDED, BAD, FAILED].map(|code| with_cut(code, true));
        assert_eq!(cut, [BAD, BAD, BAD, FAILED]);
        assert_eq!(with_cut(GOOD, false), GOOD);
    }
}
