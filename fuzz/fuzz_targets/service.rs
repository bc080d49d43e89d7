//! Any bytes, read as batches of commands: whatever clients ask for, in any order, the parts of the state agree with each
//! other, no token of a name goes back, the same batch again does the same, and a snapshot is the state.

#![no_main]

use std::collections::BTreeMap;

use conclave_service::{Batch, Name, Outcome, State, Token};
use libfuzzer_sys::fuzz_target;

/// A leader stamps the time, no client does: it comes to no more than this.
const MOST_TIME: u64 = 1 << 50;

fuzz_target!(|data: &[u8]| {
    let (mut state, mut out) = (State::default(), Outcome::default());
    let mut newest: BTreeMap<Name, Token> = BTreeMap::new();
    let mut rest = data;
    while let Ok((mut batch, more)) = postcard::take_from_bytes::<Batch>(rest) {
        rest = more;
        batch.now %= MOST_TIME;
        let (mut mutant, mut said) = (state.clone(), Outcome::default());
        state.apply(&batch, &mut out);
        state.assert_invariants();
        mutant.apply(&batch, &mut said);
        assert_eq!((&mutant, &said), (&state, &out), "the same batch did something else");
        for name in &out.changed {
            let Some(view) = state.name(name) else { continue };
            let _ = state.why_name(name);
            if let Some(token) = view.summary.newest {
                let last = newest.insert(name.clone(), token);
                assert!(last.is_none_or(|last| last <= token), "a token of {name:?} went back");
            }
        }
        let written = postcard::to_stdvec(&state).expect("a state can be written");
        assert_eq!(postcard::from_bytes::<State>(&written).as_ref(), Ok(&state));
    }
});
