//! Lessons, and whether an exercise is solved.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use super::Site;
use super::answer::{Failed, Json, Path};
use super::work::Lane;
use crate::lessons::judge::judge;
use crate::lessons::{Lesson, named, path};
use crate::{Code, Problem};

pub fn routes() -> Router<Site> {
    Router::new()
        .route("/lessons", get(all))
        .route("/lessons/{name}", get(one))
        .route("/lessons/{name}/judge", post(judged))
}

fn find(name: &str) -> Result<&'static Lesson, Problem> {
    named(name).ok_or_else(|| {
        Problem::new(Code::Unknown, format!("there is no lesson '{name}'"))
            .hint("api/v1/lessons has all of them")
    })
}

async fn all(State(site): State<Site>) -> Result<Response, Failed> {
    site.light(|_| Ok(json!({ "lessons": path().iter().map(Lesson::summary).collect::<Vec<_>>() }))).await
}

async fn one(State(site): State<Site>, Path(name): Path<String>) -> Result<Response, Failed> {
    let lesson = find(&name)?;
    site.light(move |lab| {
        lesson.page(|scene| {
            let run = lab.make(&scene.recipe)?;
            scene.moments(run.trace(), run.step_of()).map_err(|wrong| Problem::new(Code::Internal, wrong))
        })
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    exercise: String,
    run: String,
}

async fn judged(
    State(site): State<Site>,
    Path(name): Path<String>,
    Json(Wanted { exercise, run }): Json<Wanted>,
) -> Result<Response, Failed> {
    let lesson = find(&name)?;
    let exercise = lesson.exercise(&exercise).ok_or_else(|| {
        Problem::new(Code::Unknown, format!("the lesson '{name}' has no exercise '{exercise}'"))
    })?;
    let run = site.lab.find(&run)?;
    site.answered(Lane::Light, move |lab| {
        let start = lab.make(&exercise.recipe)?;
        Ok(json!(judge(exercise, start.trace(), run.trace(), run.step_of())))
    })
    .await
}
