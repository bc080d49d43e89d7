//! What makes a run: a simulation, a script or an example, and forks of it.

use conclave_trace::{Carry, Command, Which};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Options, Problem};

/// So many forks of forks: each of them is played from its beginning.
const MOST_FORKS: usize = 1_000;

/// How a run is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The algorithm of a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Its options.
    #[serde(default, skip_serializing_if = "Options::is_empty", deserialize_with = "given")]
    pub options: Options,
    /// A script, in place of an algorithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The name of an example, in place of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// What is done otherwise, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub forks: Vec<Fork>,
}

/// The options that say something.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
    let options = Option::<Options>::deserialize(deserializer)?.unwrap_or_default();
    let says = |value: &Value| {
        !matches!(value, Value::Null | Value::Bool(false)) && value != &Value::Array(Vec::new())
    };
    Ok(options.into_iter().filter(|(_, value)| says(value)).collect())
}

/// Absent and `null` mean the same.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Where a run is left, and what is done there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// So many steps are kept.
    pub at: usize,
    /// Commands, as scripts write them.
    #[serde(default, rename = "do", skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub commands: Vec<String>,
    /// How it goes on.
    #[serde(default, deserialize_with = "or_default")]
    pub then: Then,
    /// Messages that are held back.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub delay: Vec<Delay>,
}

/// How a fork goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// With what came next in the run that was left.
    #[default]
    Follow,
    /// Not at all.
    Stop,
    /// Until nothing is in flight.
    Settle,
}

/// A message that is held back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Which: `p3 => p2 #1`.
    pub message: String,
    /// For so many steps; without, until nothing else can happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

impl Delay {
    /// The delivery that waits.
    pub(crate) fn delivery(&self) -> Result<Command, Problem> {
        let command = format!("deliver {}", self.message).parse();
        match command {
            Ok(command @ Command::Carry { what: Carry::Deliver, which: Which::Nth(_), .. }) => Ok(command),
            _ => Err(Problem::refused(format!("'{}' does not name a message", self.message))
                .hint("write it as 'p3 => p2 #1'")),
        }
    }
}

impl Recipe {
    /// Reads one.
    ///
    /// # Errors
    /// If it is none, or names no run or more than one.
    pub fn read(value: &Value) -> Result<Self, Problem> {
        let recipe: Self = serde_json::from_value(value.clone())
            .map_err(|error| Problem::malformed(format!("this is not a recipe: {error}")))?;
        recipe.checked()
    }

    pub(crate) fn checked(self) -> Result<Self, Problem> {
        let named = [&self.algorithm, &self.script, &self.example].into_iter().flatten().count();
        if named != 1 {
            return Err(Problem::malformed(
                "a recipe has an algorithm, a script or an example, one of the three",
            ));
        }
        if self.algorithm.is_none() && !self.options.is_empty() {
            return Err(Problem::malformed(
                "options belong to an algorithm; a script and an example say what runs",
            ));
        }
        if self.forks.len() > MOST_FORKS {
            let sentence = format!(
                "{} forks of forks are too many for the lab, which makes at most {MOST_FORKS}",
                self.forks.len()
            );
            return Err(Problem::new(crate::Code::TooLarge, sentence)
                .hint("export the script of the run, and go on with a run of that"));
        }
        Ok(self)
    }

    /// The same with so many of its forks only.
    pub(crate) fn first(&self, forks: usize) -> Self {
        Self { forks: self.forks.iter().take(forks).cloned().collect(), ..self.clone() }
    }

    /// The same without its last fork, and that fork.
    pub(crate) fn parent(&self) -> Option<(Self, Fork)> {
        let mut parent = self.clone();
        let fork = parent.forks.pop()?;
        Some((parent, fork))
    }

    /// The name of the run that it makes: the same for the same recipe, today and tomorrow.
    #[must_use]
    pub fn id(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{:016x}", fingerprint(text.as_bytes()))
    }
}

/// FNV-1a, 64 bits.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_says_nothing_makes_no_other_run() {
        let plain = Recipe::read(&json!({ "algorithm": "central" })).unwrap();
        let wordy = json!({ "algorithm": "central", "script": null, "forks": null,
            "options": { "n": null, "paranoid": false, "crash": [] } });
        assert_eq!(Recipe::read(&wordy).unwrap(), plain);
        assert_eq!(Recipe::read(&wordy).unwrap().id(), plain.id());
        let other = Recipe::read(&json!({ "algorithm": "central", "options": { "n": 4 } })).unwrap();
        assert_ne!(other.id(), plain.id());
    }

    #[test]
    fn a_recipe_names_one_run() {
        for wrong in [
            json!({}),
            json!([]),
            json!({ "algorithm": "central", "example": "lock-manager" }),
            json!({ "script": "run central -n 2\n---\n", "options": { "n": 3 } }),
            json!({ "algorithm": "central", "colour": "red" }),
            json!({ "algorithm": "central", "forks": [{ "do": [] }] }),
        ] {
            assert_eq!(Recipe::read(&wrong).unwrap_err().code, crate::Code::Malformed, "{wrong}");
        }
        let plain = json!({ "algorithm": "central", "forks": [{ "at": 1, "do": null, "then": null, "delay": null }] });
        assert_eq!(Recipe::read(&plain).unwrap().forks[0].then, Then::Follow);
        let many = json!({ "algorithm": "central", "forks": vec![json!({ "at": 0 }); MOST_FORKS + 1] });
        assert_eq!(Recipe::read(&many).unwrap_err().code, crate::Code::TooLarge);
    }

    #[test]
    fn the_parent_is_the_recipe_before_its_last_fork() {
        let value = json!({ "example": "lock-manager", "forks": [{ "at": 3, "do": ["crash 1"] }, { "at": 5, "then": "stop" }] });
        let recipe = Recipe::read(&value).unwrap();
        let (parent, fork) = recipe.parent().unwrap();
        assert_eq!((fork.at, fork.then, parent.forks.len()), (5, Then::Stop, 1));
        assert_eq!(
            parent.parent().unwrap().0.id(),
            Recipe::read(&json!({ "example": "lock-manager" })).unwrap().id()
        );
    }
}
