//! A term that is handed over goes to the session that its leader named, and to nobody in between.

use super::{Case, Violation, samples};
use crate::history::{Handed, History, Hold, Outcome};

const NAME: &str = "heirs lead";

pub fn check(history: &History) -> Vec<Violation> {
    history.handed.iter().filter_map(|handed| usurped(history, handed)).collect()
}

fn usurped(history: &History, handed: &Handed) -> Option<Violation> {
    let later = history.holds_of(&handed.name).filter(|hold| hold.token > handed.term);
    let next: &Hold = later.min_by_key(|hold| hold.token)?;
    // It may lead without having heard of it.
    let is_unheard = history.asked.iter().any(|asked| {
        asked.session == handed.heir
            && asked.began < handed.at
            && asked.wants.iter().any(|(name, _)| *name == handed.name)
            && matches!(asked.outcome, None | Some(Outcome::Unknown(_)))
    });
    (next.session != handed.heir && !is_unheard).then(|| {
        let what = format!(
            "client{} leads {} in term {}, and {} was handed to session {:016x}",
            next.client, handed.name, next.token, handed.term, handed.heir
        );
        Violation::new(NAME, next.since, what)
    })
}

pub const CASES: &[Case] = &[("heirs_refuse_anybody_else", || {
    let mut history = samples::held(vec![samples::exclusive(1, 1, 10, 30), samples::exclusive(3, 2, 40, 50)]);
    history.handed.push(Handed { name: "a".to_owned(), term: 1, heir: 2, at: 30 });
    assert_eq!(check(&history).len(), 1);
    history.asked.push(samples::asked(2, 20, Some(25), Outcome::Unknown("it vanished")));
    assert!(check(&history).is_empty(), "the heir may have led before, and not know");
    history.asked.clear();
    history.holds.push(samples::exclusive(2, 2, 35, 38));
    history.holds[1].token = 3;
    assert!(check(&history).is_empty(), "the heir led first");
})];
