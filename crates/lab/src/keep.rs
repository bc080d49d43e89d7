//! What is kept of runs: a cache. Whoever asks for one that is gone posts its recipe again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Run;

/// Runs, the latest at the end.
#[derive(Default)]
pub struct Keep {
    runs: Mutex<VecDeque<Arc<Run>>>,
}

/// So many runs, and so many events and states of processes in all of them.
const MOST_RUNS: usize = 200;
const MOST_WEIGHT: usize = 600_000;

fn weight(run: &Run) -> usize {
    let n = run.trace().header.nodes.len();
    run.trace().records.len() + 1_000 + n * n * 4
}

impl Keep {
    /// The run of this name, if it is still here.
    pub fn find(&self, id: &str) -> Option<Arc<Run>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = runs.iter().position(|run| run.id == id)?;
        let run = runs.remove(at)?;
        runs.push_back(Arc::clone(&run));
        Some(run)
    }

    /// Keeps a run, and lets those go that nobody has asked for the longest time.
    pub fn add(&self, run: Arc<Run>) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|other| other.id != run.id);
        runs.push_back(run);
        while runs.len() > 1
            && (runs.len() > MOST_RUNS || runs.iter().map(|run| weight(run)).sum::<usize>() > MOST_WEIGHT)
        {
            runs.pop_front();
        }
    }
}
