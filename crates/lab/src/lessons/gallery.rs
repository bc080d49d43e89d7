//! What each mutant teaches, in three sentences.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The sentences of a mutant.
type Sentences = [String; 3];

fn gallery() -> &'static BTreeMap<String, BTreeMap<String, Sentences>> {
    static GALLERY: LazyLock<BTreeMap<String, BTreeMap<String, Sentences>>> = LazyLock::new(|| {
        let text = include_str!("../../gallery.toml");
        toml::from_str(text).unwrap_or_else(|error| panic!("the gallery cannot be read: {error}"))
    });
    &GALLERY
}

/// What a mutant of an algorithm teaches; nothing where nobody has written it down.
#[must_use]
pub fn lesson(algorithm: &str, mutant: &str) -> Option<&'static [String]> {
    gallery().get(algorithm)?.get(mutant).map(<[String; 3]>::as_slice)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mutant_has_a_lesson_and_every_lesson_a_mutant() {
        let mutants: BTreeSet<(String, String)> = conclave_algorithms::registry::all()
            .iter()
            .flat_map(|about| {
                about.mutants.iter().map(|mutant| (about.name.to_owned(), mutant.name.to_owned()))
            })
            .collect();
        let lessons: BTreeSet<(String, String)> = gallery()
            .iter()
            .flat_map(|(algorithm, of)| of.keys().map(|mutant| (algorithm.clone(), mutant.clone())))
            .collect();
        assert_eq!(lessons, mutants);
    }

    #[test]
    fn each_lesson_is_three_sentences() {
        for (mutant, sentences) in gallery().values().flatten() {
            assert!(
                sentences.iter().all(|sentence| sentence.ends_with('.') && sentence.len() < 160),
                "{mutant}"
            );
        }
    }
}
