// SPDX-License-Identifier: GPL-2.0-only
//! Why a second process did not answer.

use crate::process::ProcessEnd;
use outboard_error::{front, Error, ErrorKind, Failure, Kept};
use std::fmt::{Display, Formatter};
use std::io;

/// Why there is no answer of a second process. It has ended, or was killed because of the error.
#[derive(Debug)]
pub enum WorkerError {
    /// The process ended without an answer.
    Ended(ProcessEnd),
    /// The process ended its work; [`finish`](crate::WorkerProcess::finish) returns the result.
    Finished,
    /// No answer came within the limit.
    Late,
    /// This process was asked to stop.
    Interrupted,
    /// A message is longer than the limit.
    TooLong,
    /// The bytes are no message of the expected type.
    Garbage(String),
    /// The host refused something.
    Host(io::Error),
}

impl Display for WorkerError {
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        match self {
            WorkerError::Ended(end) => end.fmt(formatter),
            WorkerError::Finished => formatter.write_str("it ended its work"),
            WorkerError::Late => formatter.write_str("it does not answer"),
            WorkerError::Interrupted => formatter.write_str("interrupted"),
            WorkerError::TooLong => formatter.write_str("its answer is too long"),
            WorkerError::Garbage(why) => write!(formatter, "its answer makes no sense: {why}"),
            WorkerError::Host(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for WorkerError {}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        WorkerError::Host(error)
    }
}

impl From<serde_json::Error> for WorkerError {
    fn from(error: serde_json::Error) -> Self {
        WorkerError::Garbage(error.to_string())
    }
}

/// The error of a copy that worked with an image. Reports a panic: the copy itself could only print
/// it.
impl From<WorkerError> for Error {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Ended(ProcessEnd::Panicked) => panicked(),
            WorkerError::Ended(ProcessEnd::Killed(signal)) => Error::known(
                ErrorKind::Crashed,
                format!("the process in the sandbox crashed (signal {signal})"),
            ),
            WorkerError::Interrupted => Error::Interrupted("interrupted".to_owned()),
            WorkerError::Host(error) => {
                Error::failed("cannot talk to the process in the sandbox", &error)
            }
            error => Error::Failed(format!(
                "the process in the sandbox ended without a result: {error}"
            )),
        }
    }
}

fn panicked() -> Error {
    let text = "the kernel in the sandbox panicked; its messages are on standard error";
    let mut reports = Kept::default();
    let failure = Failure::new(ErrorKind::Crashed, text);
    reports.failures.add(failure.into());
    front().add_of_copy(reports);
    Error::Panicked
}
