//! Runs taken before a reduced search begins, or begins again, to learn who sends to whom.
//!
//! A fact that comes up late in a search makes it begin again, and the later the more has been in vain. Most facts come up in
//! some run that goes to its end, and a run costs next to nothing. Which runs are taken is the same every time.

use crate::action::Action;
use crate::intern::hash_words;
use crate::reduce::Reduction;
use crate::search::Search;

/// So many runs in a row have to tell nothing new.
const RUNS: u32 = 256;
/// Steps in a run at most: where requests never end, neither would it.
const STEPS: u32 = 128;

/// Adds what a few runs tell that begin in states that the search has seen.
pub fn rehearse(search: &mut Search, reduction: &mut Reduction) {
    let (mut run, mut last_news) = (0, 0);
    while run - last_news < RUNS {
        run += 1;
        follow(search, run);
        if reduction.facts.learn(&search.facts()) {
            last_news = run;
        }
    }
}

fn follow(search: &mut Search, run: u32) {
    let draw = |words: &[u32], below: usize| hash_words(words) as usize % below;
    // Some runs let one process after the other go on for long, others mix their steps.
    let patience = 1 << (run % 6);
    let n = search.terms().n();
    let start = draw(&[run], search.states.len());
    let mut root = search.states.root(start as u32).to_vec();
    for nth in 0..STEPS {
        let preferred = draw(&[run, nth / patience], n);
        // Some processes ask only when everything else has come to its end.
        let rank = |action: &Action| match (action, action.process()) {
            (Action::Ask { place, .. }, _) if draw(&[run, u32::from(*place), 0, 1], 2) == 0 => 2,
            (_, process) => u8::from(process != Some(preferred)),
        };
        let actions = search.raw_actions(&root);
        let Some(best) = actions.iter().map(rank).min() else { return };
        let best: Vec<&Action> = actions.iter().filter(|action| rank(action) == best).collect();
        let step = search.raw_step(&root, *best[draw(&[run, nth, 0], best.len())]);
        if step.is_broken {
            return;
        }
        root = step.normal;
    }
}
