// SPDX-License-Identifier: GPL-2.0-only
//! How many bytes of a transfer arrive when.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(10);
/// Most intervals. A transfer that takes longer has longer ones.
const MOST: usize = 256;

/// The bytes that arrived in intervals of one length, from the start of a transfer on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Throughput {
    /// Seconds of one interval.
    pub interval: f64,
    pub bytes: Vec<u64>,
}

impl Default for Throughput {
    fn default() -> Self {
        Self {
            interval: SHORTEST.as_secs_f64(),
            bytes: Vec::new(),
        }
    }
}

impl Throughput {
    /// Bytes have arrived, so many seconds after the start.
    pub fn add(&mut self, seconds: f64, bytes: u64) {
        while seconds >= self.interval * MOST as f64 {
            self.interval *= 2.0;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let index = (seconds / self.interval) as usize;
        if self.bytes.len() <= index {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
    }

    /// Bits per second, in each interval.
    pub fn rates(&self) -> impl Iterator<Item = f64> + '_ {
        let rate = |bytes: &u64| *bytes as f64 * 8.0 / self.interval;
        self.bytes.iter().map(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_with_the_transfer() {
        let mut throughput = Throughput::default();
        for millisecond in 0..10_000 {
            throughput.add(f64::from(millisecond) / 1000.0, 3);
        }
        assert_eq!(throughput.bytes.iter().sum::<u64>(), 30_000);
        assert!(throughput.bytes.len() <= MOST);
        assert_eq!(throughput.interval, 0.04);
        let most = throughput.rates().fold(0.0, f64::max);
        assert!((20_000.0..30_000.0).contains(&most), "{most}");
    }

    #[test]
    fn pauses_are_intervals_too() {
        let mut throughput = Throughput::default();
        throughput.add(0.001, 5);
        throughput.add(0.035, 7);
        assert_eq!(throughput.bytes, [5, 0, 0, 7]);
    }
}
