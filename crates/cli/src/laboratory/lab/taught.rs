//! What the lessons promise, tried out: scenes play, exercises begin unsolved and can be solved, mutants can be driven by hand.

use std::sync::Arc;

use conclave_algorithms::registry;
use conclave_lab::lessons::judge::judge;
use conclave_lab::lessons::path;
use conclave_lab::{Lab, Limits};
use serde_json::{Value, json};

use super::Workbench;
use crate::laboratory::catalogue::Catalogue;

fn lab() -> Lab {
    Lab::new(Arc::new(Workbench { catalogue: Catalogue::default() }), Limits::default())
}

#[test]
fn every_scene_plays_and_every_sentence_has_its_moment() {
    let lab = lab();
    for lesson in path() {
        let page = lesson.page(|scene| {
            let run = lab.make(&scene.recipe).map_err(|problem| problem.json().to_string())?;
            scene.moments(run.trace(), run.step_of())
        });
        let page = page.unwrap_or_else(|wrong| panic!("{}: {wrong}", lesson.name));
        for scene in page["scenes"].as_array().unwrap() {
            let moments: Vec<u64> =
                scene["notes"].as_array().unwrap().iter().filter_map(|note| note["at"].as_u64()).collect();
            assert!(moments.is_sorted_by(|a, b| a < b), "{}: {moments:?}", lesson.name);
        }
        for algorithm in &lesson.algorithms {
            assert!(
                registry::find(algorithm).is_some(),
                "{}: there is no algorithm '{algorithm}'",
                lesson.name
            );
        }
    }
}

#[test]
fn every_exercise_begins_unsolved_and_can_be_solved() {
    let lab = lab();
    let run =
        |recipe: &Value| lab.make(recipe).unwrap_or_else(|problem| panic!("{recipe}: {}", problem.json()));
    for lesson in path() {
        for exercise in &lesson.exercises {
            let (start, solution) = (run(&exercise.recipe), run(&exercise.solution));
            let judged = |run: &conclave_lab::Run| judge(exercise, start.trace(), run.trace(), run.step_of());
            let name = format!("{}/{}", lesson.name, exercise.name);
            let (before, after) = (judged(&start), judged(&solution));
            assert!(!before.solved, "{name} is solved before it begins: {}", before.sentence);
            assert!(before.sentence.starts_with("Not yet: "), "{name}: {}", before.sentence);
            assert!(after.solved, "{name}: {}", after.sentence);
            assert!(after.at.is_some_and(|at| at as usize <= solution.steps()), "{name}: {after:?}");
        }
    }
}

#[test]
fn every_mutant_can_be_driven_by_hand() {
    let lab = lab();
    for about in registry::all() {
        for mutant in about.mutants {
            let script = format!("run {} -n {} --mutant {}\n---\n", about.name, mutant.nodes, mutant.name);
            let made = lab.make(&json!({ "script": script }));
            assert!(made.is_ok(), "{script}{}", made.err().map(|problem| problem.json()).unwrap_or_default());
        }
    }
}
