// SPDX-License-Identifier: GPL-2.0-only
//! Hands the members of an archive to a caller that makes something else of them than files.

use super::input::{unreadable, ArchiveInput};
use super::member::{Archive, Member, NextMember};
use super::stream::{ArchivePiece, StopReason};
use crate::accounts::Accounts;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Failure, Result};
use outboard_sandbox::interrupt::Interrupt;

/// The bytes of a member, as far as they were not read yet.
pub struct MemberData<'a> {
    archive: &'a mut Archive,
    interrupt: &'a Interrupt,
}

/// Why a visit of an archive ends early.
pub enum VisitEnd {
    /// The archive cannot be read.
    Archive(StopReason),
    /// The caller's reason.
    Caller(Error),
}

impl From<StopReason> for VisitEnd {
    fn from(reason: StopReason) -> Self {
        Self::Archive(reason)
    }
}

impl From<Error> for VisitEnd {
    fn from(error: Error) -> Self {
        Self::Caller(error)
    }
}

impl MemberData<'_> {
    /// The next bytes. `None`: the member's end.
    pub fn piece(&mut self) -> std::result::Result<Option<ArchivePiece>, VisitEnd> {
        if self.interrupt.asked() {
            return Err(StopReason::Asked.into());
        }
        Ok(self.archive.data()?)
    }

    /// How many bytes there are.
    pub fn rest(&self) -> u64 {
        self.archive.rest()
    }
}

/// Calls `visit` with each member, in the order of the archive. A member that makes no sense is an
/// error. Blocks until the archive, which may be compressed, is read to its end.
pub fn visit(
    input: ArchiveInput,
    interrupt: &Interrupt,
    mut visit: impl FnMut(Box<Member>, &mut MemberData) -> std::result::Result<(), VisitEnd>,
) -> Result<()> {
    let name = input.name.clone();
    std::thread::scope(|scope| {
        let (mut archive, _) = input.archive(scope, interrupt, Accounts::default())?;
        let done = visit_all(&mut archive, interrupt, &mut visit);
        done.map_err(|end| match end {
            VisitEnd::Caller(error) => error,
            VisitEnd::Archive(_) if interrupt.asked() => {
                Error::Interrupted(format!("{name}: interrupted"))
            }
            VisitEnd::Archive(reason) => unreadable_archive(reason, &archive, &name),
        })
    })
}

fn visit_all(
    archive: &mut Archive,
    interrupt: &Interrupt,
    visit: &mut impl FnMut(Box<Member>, &mut MemberData) -> std::result::Result<(), VisitEnd>,
) -> std::result::Result<(), VisitEnd> {
    loop {
        if interrupt.asked() {
            return Err(StopReason::Asked.into());
        }
        match archive.next()? {
            NextMember::Member(member) => {
                let mut data = MemberData { archive, interrupt };
                visit(member, &mut data)?;
            }
            NextMember::Refused(path, why) => {
                let why = format!("{}: {why}", escaped(&path));
                return Err(StopReason::Nonsense(why).into());
            }
            NextMember::End { .. } => return Ok(archive.finish()?),
        }
    }
}

fn unreadable_archive(reason: StopReason, archive: &Archive, name: &str) -> Error {
    let offset = archive.offset();
    let damaged = |text: String| Failure::new(ErrorKind::Damaged, text);
    let failure = match reason {
        StopReason::Asked => damaged(format!("{name}: stopped")),
        StopReason::End => damaged(format!("{name} is cut off: it ends at offset {offset}")),
        StopReason::Failed(error) => {
            unreadable(&error).after(format!("cannot read {name} from offset {offset} on"))
        }
        StopReason::Nonsense(why) => damaged(format!("{name}: {why}")),
    };
    failure.into()
}
