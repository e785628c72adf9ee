// SPDX-License-Identifier: GPL-2.0-only
//! `outboard fsck`: the distribution's own checker of the type that is found.

use crate::exit_code::{CommandStatus, CHECK_FAILED};
use crate::output::Output;
use crate::record::Bytes;
use clap::Args;
use outboard_build::fsck::{check, CheckMode, CheckOutcome, CheckPlan, CheckedVolume};
use outboard_error::{report, ErrorKind, Failure, Result};
use outboard_volume::address::ImageName;
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::OsString;

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

impl FsckArgs {
    fn mode(&self) -> CheckMode {
        match (self.mend, self.automatic) {
            (true, _) => CheckMode::Mend,
            (_, true) => CheckMode::Automatic,
            _ => CheckMode::Look,
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

fn word(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Clean => "clean",
        CheckOutcome::Corrected => "corrected",
        CheckOutcome::Errors => "errors",
        CheckOutcome::Failed => "failed",
    }
}

pub fn run(
    options: &FsckArgs,
    session: &mut Session,
    output: &mut Output,
) -> Result<CommandStatus> {
    let name = ImageName::find(&options.image);
    let mode = options.mode();
    let plan = CheckPlan {
        mode,
        replay: options.replay,
        shown: !output.is_json(),
    };
    let checked = check(session, &name, &plan)?;
    let left = left(&checked, mode);
    let check = Check {
        volume: Bytes::new("volume", name.operand()),
        kind: checked.kind,
        checker: checked.checker,
        result: word(checked.outcome),
        output: checked.output,
    };
    output.json_member("check", &check)?;
    if let Some((kind, text)) = left {
        report(Failure::new(kind, text).with_path(name.operand()));
    }
    Ok(CommandStatus(checked.code))
}

/// The failure that the check has found, if it has found one.
fn left(checked: &CheckedVolume, mode: CheckMode) -> Option<(ErrorKind, String)> {
    let shown = &checked.shown;
    match checked.outcome {
        CheckOutcome::Errors if !checked.is_cut => {
            Some((ErrorKind::Damaged, next_step(checked.kind, shown, mode)))
        }
        CheckOutcome::Failed => {
            let text = format!("cannot check {shown}: {} failed", checked.checker);
            Some((ErrorKind::Other, text))
        }
        _ => None,
    }
}

/// Advice about errors that are left.
fn next_step(kind: &str, shown: &str, mode: CheckMode) -> String {
    match (kind, mode) {
        ("xfs", CheckMode::Mend | CheckMode::Automatic) => format!(
            "{shown}: its log has to be replayed before it can be repaired: outboard fsck --replay \
             -y {shown}"
        ),
        ("btrfs", CheckMode::Look | CheckMode::Automatic) => format!(
            "{shown} has errors; -y repairs with \"btrfs check --repair\", which its makers call \
             dangerous: copy the image first"
        ),
        (_, CheckMode::Look | CheckMode::Automatic) => {
            format!("{shown} has errors: outboard fsck -y {shown} repairs them")
        }
        (_, CheckMode::Mend) => format!("{shown} still has errors"),
    }
}
