//! Clusters of real processes: start, watch, do, read, stop.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Site;
use super::answer::{Failed, Json, Path, json as answer};
use crate::live::{Deed, Live};
use crate::recipe::or_default;
use crate::{Code, Options, Problem};

/// How often those who watch are told how everybody stands.
const OFTEN: Duration = Duration::from_millis(500);

pub fn routes() -> Router<Site> {
    Router::new()
        .route("/clusters", get(all).post(start))
        .route("/clusters/{id}", get(status).delete(stop))
        .route("/clusters/{id}/events", get(events))
        .route("/clusters/{id}/do", post(obey))
        .route("/clusters/{id}/trace", post(trace))
}

/// Clusters wait for processes: neither the threads that answer nor those that compute are theirs.
async fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Failed> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|_| Problem::new(Code::Internal, "a fault of the program: this could not be done"))??)
}

async fn all(State(site): State<Site>) -> Result<Response, Failed> {
    let clusters = Arc::clone(&site.clusters);
    let found =
        waiting(move || clusters.all().iter().map(|live| live.status()).collect::<Result<Vec<_>, _>>())
            .await?;
    Ok(answer(&json!({ "clusters": found })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    algorithm: String,
    #[serde(default, deserialize_with = "or_default")]
    options: Options,
}

async fn start(
    State(site): State<Site>,
    Json(Wanted { algorithm, options }): Json<Wanted>,
) -> Result<Response, Failed> {
    let (lab, clusters) = (Arc::clone(&site.lab), Arc::clone(&site.clusters));
    let status = waiting(move || {
        lab.about(&algorithm)?;
        let plan = lab.bench.cluster(&algorithm, &options, &lab.limits)?;
        clusters.start(plan)?.status()
    });
    Ok(answer(&status.await?))
}

async fn status(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let live = site.clusters.find(&id)?;
    Ok(answer(&waiting(move || live.status()).await?))
}

async fn stop(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let clusters = Arc::clone(&site.clusters);
    waiting(move || clusters.stop(&id)).await?;
    Ok(answer(&json!({})))
}

async fn obey(
    State(site): State<Site>,
    Path(id): Path<String>,
    Json(deed): Json<Deed>,
) -> Result<Response, Failed> {
    let live = site.clusters.find(&id)?;
    let status = waiting(move || {
        let said = live.obey(deed)?;
        let mut status = live.status()?;
        status["said"] = said.into();
        Ok(status)
    });
    Ok(answer(&status.await?))
}

async fn trace(
    State(site): State<Site>,
    Path(id): Path<String>,
    Json(_): Json<Value>,
) -> Result<Response, Failed> {
    let live = site.clusters.find(&id)?;
    let lab = Arc::clone(&site.lab);
    let summary = waiting(move || {
        let (name, trace) = live.trace()?;
        Ok(lab.recorded(&name, trace)?.summary())
    });
    Ok(answer(&summary.await?))
}

async fn events(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let live = site.clusters.find(&id)?;
    let told = stream::unfold(Watching { live: Some(live), is_first: true }, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok::<_, Infallible>(event), watching))
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::default()).into_response())
}

/// Somebody who watches a cluster.
struct Watching {
    /// Nothing once it is over.
    live: Option<Arc<Live>>,
    is_first: bool,
}

impl Watching {
    async fn next(&mut self) -> Option<Event> {
        let live = self.live.clone()?;
        if !self.is_first {
            tokio::time::sleep(OFTEN).await;
        }
        self.is_first = false;
        let told = tokio::task::spawn_blocking(move || (live.is_over(), live.status())).await;
        match told {
            Ok((false, Ok(status))) => Some(Event::default().event("status").data(status.to_string())),
            _ => {
                self.live = None;
                Some(Event::default().event("stopped").data("{}"))
            }
        }
    }
}
