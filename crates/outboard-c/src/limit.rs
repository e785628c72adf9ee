// SPDX-License-Identifier: GPL-2.0-only
//! Limits of the calling thread's calls: handles that end them, and deadlines.

use crate::argument::Out;
use crate::handle::{add_cancel, cancel, take_cancel, Handle};
use crate::result::status;
use outboard::{Deadline, LimitScope, Limits, Timer};
use std::cell::RefCell;
use std::ffi::c_int;
use std::time::Duration;

/// The limits that a thread has set. The fields are dropped in this order.
struct ThreadLimit {
    _scope: LimitScope,
    _timer: Option<Timer>,
}

thread_local! {
    static LIMIT: RefCell<Option<ThreadLimit>> = const { RefCell::new(None) };
}

#[no_mangle]
pub extern "C" fn ob_volume_cancel_new(place: Out<Handle>) -> c_int {
    status(|| {
        let place = place.checked("the pointer for the canceller", Handle::NONE)?;
        place.set(add_cancel());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_cancel_calls(handle: Handle) -> c_int {
    status(|| {
        cancel(handle)?.cancel();
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_cancel_free(handle: Handle) -> c_int {
    status(|| take_cancel(handle))
}

#[no_mangle]
pub extern "C" fn ob_volume_limit(milliseconds: u64, handle: Handle) -> c_int {
    status(|| {
        let mut limits = Limits::none();
        if !handle.is_null() {
            limits = limits.with(cancel(handle)?);
        }
        let mut timer = None;
        if milliseconds > 0 {
            let deadline = Deadline::after(Duration::from_millis(milliseconds));
            let (started, stopping) = Timer::start(deadline);
            limits = limits.with(stopping);
            timer = Some(started);
        }
        LIMIT.with_borrow_mut(|limit| {
            // The limits before end first: scopes nest.
            *limit = None;
            *limit = Some(ThreadLimit {
                _scope: limits.enter(),
                _timer: timer,
            });
        });
        Ok(())
    })
}
