// SPDX-License-Identifier: GPL-2.0-only
//! The end of a process whose kernel panics: advice for the user, and the exit code [`CODE`].
//!
//! [`end`] runs on the thread that panics, maybe in a signal handler. It makes plain system calls,
//! waits for no lock, and does not allocate.

use outboard::end_at_once;
use outboard_error::format::message;
use outboard_error::{AtPanic, Hint};
use outboard_worker::PANIC_CODE;
use std::sync::Mutex;

/// No command uses this code otherwise.
pub const CODE: u8 = PANIC_CODE;

/// Advice about the images that the kernel has mounted, or is mounting.
#[derive(Debug, Default)]
pub struct Advice {
    text: Mutex<String>,
}

impl Advice {
    /// Names a file system of an image. `write`: it is mounted for writing.
    pub fn add_image(&self, shown: &str, write: bool) {
        let half = if write {
            " and may be half written: copy the image before you repair it"
        } else {
            "; nothing was written to it"
        };
        let fsck = Hint::RunFsck {
            volume: Some(shown.to_owned()),
            repair: write,
        };
        self.add(&format!(
            "{shown} is probably damaged{half}; next step: {fsck}"
        ));
    }

    /// Names a file system or a disk of a server: only there it can be checked.
    pub fn add_server(&self, shown: &str, write: bool) {
        self.add(&if write {
            format!(
                "{shown} may lack what was written last, or have files that are half written; \
                 next step: compare them with their sources, and check the disk on the server"
            )
        } else {
            format!("nothing was written to {shown}; next step: check the disk on the server")
        });
    }

    fn add(&self, advice: &str) {
        let line = message(&format!("{advice}\n"));
        let mut text = self.text.lock().expect("no thread panics");
        if !text.contains(&line) {
            text.push_str(&line);
        }
    }
}

/// Has the front print the panic, and ends the process.
pub fn end(print: &AtPanic, advice: &Advice, panic: &[u8]) -> ! {
    let advice = advice.text.try_lock();
    print(panic, advice.as_ref().map_or("", |text| text));
    end_at_once(CODE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_each_image_once() {
        let advice = Advice::default();
        advice.add_image("a.img@1", true);
        advice.add_image("a.img@1", true);
        advice.add_image("b.img", false);
        advice.add_server("nfs://a/b", true);
        let text = advice.text.lock().expect("no thread panics").clone();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("half written") && text.contains("fsck of a.img@1"));
        let server = text.lines().find(|line| line.contains("nfs:")).unwrap();
        assert!(
            server.contains("on the server") && !server.contains("fsck"),
            "{server}"
        );
    }
}
