//! Lessons: the path through the algorithms, as data.
//!
//! A lesson is a file below `lessons/`: text, scenes with a sentence at some moments, questions, and exercises. Where a note stands is
//! said by what happens there (`when`), not by a number, so that it stays at its place when a script grows. What counts as solved is said
//! by [goals](judge), a closed set that is judged on the trace of a run; each exercise carries a solution, which a test plays.

pub mod gallery;
pub mod judge;

use std::sync::LazyLock;

use conclave_trace::{Trace, describe};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use judge::Goal;

include!(concat!(env!("OUT_DIR"), "/lessons.rs"));

/// A station of the path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// What addresses call it.
    pub name: String,
    /// Its place on the path, from 1.
    pub station: u32,
    /// Its title.
    pub title: String,
    /// What it is about, in a sentence.
    pub idea: String,
    /// The algorithms that it shows.
    pub algorithms: Vec<String>,
    /// Its paragraphs.
    pub text: Vec<String>,
    /// What is played.
    pub scenes: Vec<Scene>,
    /// What is asked.
    pub questions: Vec<Question>,
    /// What is to be done.
    pub exercises: Vec<Exercise>,
}

/// A run with a sentence at some moments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Its title.
    pub title: String,
    /// What makes the run.
    pub recipe: Value,
    /// The sentences, in the order of their moments.
    pub notes: Vec<Note>,
}

/// A sentence at a moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Part of the sentence of the first event, after that of the note before, at which it stands.
    pub when: String,
    /// The sentence.
    pub text: String,
}

/// A question with answers to choose from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked.
    pub text: String,
    /// What may be answered.
    pub answers: Vec<String>,
    /// Which of them is right.
    pub right: usize,
    /// Why.
    pub why: String,
}

/// Something to be done with a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exercise {
    /// What addresses call it.
    pub name: String,
    /// What is to be done.
    pub task: String,
    /// The run with which it begins.
    pub recipe: Value,
    /// What of the setup may be another one.
    #[serde(default)]
    pub free: Vec<Free>,
    /// When it is solved, in words.
    pub goal: String,
    /// What helps.
    pub hint: String,
    /// When it is solved.
    pub goals: Vec<Goal>,
    /// A run that solves it. It is not shown.
    pub solution: Value,
}

/// What of the setup of an exercise may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Free {
    /// The order of the channels.
    Channels,
    /// The settings of the algorithm.
    Settings,
}

/// The lessons, in the order of the path.
pub fn path() -> &'static [Lesson] {
    static PATH: LazyLock<Vec<Lesson>> = LazyLock::new(|| {
        let read = |(file, text): &(&str, &str)| {
            toml::from_str(text).unwrap_or_else(|error| panic!("the lesson {file} cannot be read: {error}"))
        };
        let mut path: Vec<Lesson> = FILES.iter().map(read).collect();
        path.sort_by_key(|lesson| lesson.station);
        path
    });
    &PATH
}

/// The lesson of this name.
pub fn named(name: &str) -> Option<&'static Lesson> {
    path().iter().find(|lesson| lesson.name == name)
}

impl Lesson {
    /// Its row in the path.
    #[must_use]
    pub fn summary(&self) -> Value {
        json!({
            "name": self.name, "station": self.station, "title": self.title, "idea": self.idea,
            "algorithms": self.algorithms, "scenes": self.scenes.len(), "exercises": self.exercises.len(),
            "tasks": self.exercises.iter().map(|exercise| &exercise.name).collect::<Vec<_>>(),
        })
    }

    /// The whole of it; `moments` says at which moments the notes of a scene stand.
    ///
    /// # Errors
    /// That of `moments`.
    pub fn page<E>(&self, mut moments: impl FnMut(&Scene) -> Result<Vec<u32>, E>) -> Result<Value, E> {
        let mut scenes = Vec::new();
        for scene in &self.scenes {
            let notes = told(&scene.notes, &moments(scene)?);
            scenes.push(json!({ "title": scene.title, "recipe": scene.recipe, "notes": notes }));
        }
        let exercises: Vec<Value> = (self.exercises.iter())
            .map(|exercise| {
                json!({
                    "name": exercise.name, "task": exercise.task, "recipe": exercise.recipe,
                    "goal": exercise.goal, "hint": exercise.hint,
                })
            })
            .collect();
        Ok(json!({
            "name": self.name, "station": self.station, "title": self.title, "idea": self.idea,
            "algorithms": self.algorithms, "text": self.text, "scenes": scenes,
            "questions": self.questions, "exercises": exercises,
        }))
    }

    /// The exercise of this name.
    #[must_use]
    pub fn exercise(&self, name: &str) -> Option<&Exercise> {
        self.exercises.iter().find(|exercise| exercise.name == name)
    }
}

/// The sentences by moment; several at the same one are said together.
fn told(notes: &[Note], moments: &[u32]) -> Vec<Value> {
    let mut told: Vec<(u32, String)> = Vec::new();
    for (note, at) in notes.iter().zip(moments) {
        match told.last_mut() {
            Some((last, text)) if last == at => {
                text.push(' ');
                text.push_str(&note.text);
            }
            _ => told.push((*at, note.text.clone())),
        }
    }
    told.into_iter().map(|(at, text)| json!({ "at": at, "text": text })).collect()
}

impl Scene {
    /// At which moments its notes stand, in a run with the step of each record.
    ///
    /// # Errors
    /// If what a note waits for does not happen.
    pub fn moments(&self, run: &Trace, step: &[u32]) -> Result<Vec<u32>, String> {
        let mut events = run.records.iter().zip(step);
        let moment = |note: &Note| {
            let found = events.find(|(record, _)| describe(record).contains(&note.when));
            found.map(|(_, step)| *step).ok_or_else(|| {
                format!("in the scene '{}' nothing happens any more like '{}'", self.title, note.when)
            })
        };
        self.notes.iter().map(moment).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_path_is_complete_and_in_order() {
        let stations: Vec<u32> = path().iter().map(|lesson| lesson.station).collect();
        assert_eq!(stations, (1..=13).collect::<Vec<_>>());
        let names: BTreeSet<&str> = path().iter().map(|lesson| lesson.name.as_str()).collect();
        assert_eq!(names.len(), path().len(), "two lessons have the same name");
    }

    #[test]
    fn every_lesson_tells_shows_asks_and_sets_a_task() {
        for lesson in path() {
            let Lesson { name, text, scenes, questions, exercises, .. } = lesson;
            assert!(text.len() >= 3 && !scenes.is_empty() && !questions.is_empty(), "{name}");
            assert!(
                !exercises.is_empty() && exercises.iter().all(|exercise| !exercise.goals.is_empty()),
                "{name}"
            );
            assert!(scenes.iter().all(|scene| !scene.notes.is_empty()), "{name}");
            for question in questions {
                assert!(question.right < question.answers.len(), "{name}: {}", question.text);
            }
            let tasks: BTreeSet<&str> = exercises.iter().map(|exercise| exercise.name.as_str()).collect();
            assert_eq!(tasks.len(), exercises.len(), "{name}: two exercises have the same name");
        }
    }

    #[test]
    fn sentences_of_the_same_moment_are_said_together() {
        let note = |text: &str| Note { when: String::new(), text: text.to_owned() };
        let told = told(&[note("a."), note("b."), note("c.")], &[1, 4, 4]);
        assert_eq!(told, [json!({ "at": 1, "text": "a." }), json!({ "at": 4, "text": "b. c." })]);
    }

    #[test]
    fn the_page_gets_no_solution_and_no_goals() {
        for lesson in path() {
            let page = lesson.page(|scene| Ok::<_, ()>((0..).take(scene.notes.len()).collect())).unwrap();
            for exercise in page["exercises"].as_array().unwrap() {
                assert!(exercise.get("solution").is_none() && exercise.get("goals").is_none(), "{exercise}");
            }
            assert_eq!(page["scenes"][0]["notes"].as_array().unwrap().len(), lesson.scenes[0].notes.len());
        }
    }
}
