// SPDX-License-Identifier: GPL-2.0-only
//! Names of files that threads are writing. A later member of the same name, a link to it, and a
//! path through it must wait.

use std::collections::HashSet;
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Device and inode of a directory.
pub type Identity = (u64, u64);

/// A hash of a name in a directory. If two names have the same hash, one only waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight(u64);

#[derive(Default)]
struct FlightState {
    going: HashSet<Flight>,
    /// Number of waiters: waking none would cost a system call of the host for every member.
    waiting: usize,
    /// A thread has panicked: nothing more will land.
    broken: bool,
}

#[derive(Default)]
pub struct Flights {
    hasher: RandomState,
    state: Mutex<FlightState>,
    landed: Condvar,
}

impl Flights {
    pub fn flight(&self, directory: Identity, name: &CStr) -> Flight {
        Flight(self.hasher.hash_one((directory, name)))
    }

    fn lock(&self) -> MutexGuard<'_, FlightState> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_going(&self, flight: Flight) -> bool {
        self.lock().going.contains(&flight)
    }

    pub fn start(&self, flight: Flight) {
        self.lock().going.insert(flight);
    }

    pub fn land(&self, flight: Flight) {
        let mut state = self.lock();
        state.going.remove(&flight);
        if state.waiting > 0 {
            self.landed.notify_all();
        }
    }

    /// Waits until this file is complete.
    pub fn wait(&self, flight: Flight) {
        self.wait_while(|going| going.contains(&flight));
    }

    /// Waits until all files are complete.
    pub fn wait_for_all(&self) {
        self.wait_while(|going| !going.is_empty());
    }

    fn wait_while(&self, condition: impl Fn(&HashSet<Flight>) -> bool) {
        let mut state = self.lock();
        state.waiting += 1;
        while condition(&state.going) && !state.broken {
            let waited = self.landed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }

    /// Ends all waiting if this thread panics before the guard is dropped.
    pub fn breaking(&self) -> FlightsPanicGuard<'_> {
        FlightsPanicGuard(self)
    }
}

/// See [`Flights::breaking`].
pub struct FlightsPanicGuard<'a>(&'a Flights);

impl Drop for FlightsPanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.landed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_it_has_landed() {
        let flights = Flights::default();
        let [one, two] = [c"a", c"b"].map(|name| flights.flight((1, 2), name));
        assert_ne!(one, two);
        flights.start(one);
        flights.start(two);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| flights.wait(one));
            let all = scope.spawn(|| flights.wait_for_all());
            flights.land(one);
            first.join().unwrap();
            assert!(!flights.is_going(one) && flights.is_going(two));
            flights.land(two);
            all.join().unwrap();
        });
    }
}
