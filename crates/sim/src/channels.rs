//! When the last message of each channel arrives, so that the next can be kept behind it.

use std::collections::BTreeMap;

/// The latest arrival on every ordered pair of processes that has been used.
#[derive(Clone, Debug)]
pub enum LastArrivals {
    /// One entry for each pair: small groups.
    Dense {
        /// How many processes there are.
        n: usize,
        /// The entries, row by row.
        times: Vec<u64>,
    },
    /// Only the pairs that are used: large groups talk to few neighbours.
    Sparse(BTreeMap<(u32, u32), u64>),
}

/// Up to this many processes every pair has an entry (8 MiB).
const DENSE: usize = 1_024;

impl LastArrivals {
    /// None yet, among `n` processes.
    #[must_use]
    pub fn new(n: usize) -> Self {
        if n <= DENSE { Self::Dense { n, times: vec![0; n * n] } } else { Self::Sparse(BTreeMap::new()) }
    }

    /// Moves an arrival behind the last one of its channel.
    #[inline]
    pub fn keep_order(&mut self, from: usize, to: usize, arrival: u64) -> u64 {
        let last = match self {
            Self::Dense { n, times } => &mut times[from * *n + to],
            Self::Sparse(times) => times.entry((from as u32, to as u32)).or_insert(0),
        };
        *last = arrival.max(*last);
        *last
    }
}
