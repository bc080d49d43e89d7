//! The lab over HTTP: what is asked, and who may ask.

mod answer;
mod clusters;
mod jobs;
mod lessons;
mod page;
mod safety;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, middleware};
use conclave_core::NodeId;
use conclave_trace::Counted;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::live::Clusters;
use crate::recipe::{Fork, Recipe};
use crate::{Bench, Lab, Options, Problem, Served};
use answer::{Failed, Json, Path, file, json as answer};
use work::{Lane, Work};

/// What everyone who answers needs.
#[derive(Clone)]
struct Site {
    lab: Arc<Lab>,
    clusters: Arc<Clusters>,
    jobs: Arc<jobs::Jobs>,
    work: Arc<Work>,
    pages: Arc<page::Pages>,
}

/// A lab that listens.
pub struct Listening {
    /// Where its page is.
    pub url: String,
    listener: tokio::net::TcpListener,
    router: Router,
    clusters: Arc<Clusters>,
}

impl Listening {
    /// Begins to listen.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub async fn open(served: &Served, bench: Arc<dyn Bench>) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(&served.listen).await?;
        let guard = safety::Guard::new(listener.local_addr()?)?;
        let site = Site {
            lab: Arc::new(Lab::new(bench, served.limits)),
            clusters: Arc::new(Clusters::new(served.limits.clusters)),
            jobs: Arc::new(jobs::Jobs::default()),
            work: Arc::new(Work::new(served.limits.seconds)),
            pages: Arc::new(page::Pages::new(served.web.clone())),
        };
        let (url, clusters) = (guard.url(), Arc::clone(&site.clusters));
        Ok(Self { url, listener, router: routes(site, guard), clusters })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until this is over.
    ///
    /// # Errors
    /// If the system takes the listener away.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        // Streams have no end of their own: who still listens is cut off.
        let ended = tokio::select! {
            ended = axum::serve(self.listener, self.router).into_future() => ended,
            () = stop => Ok(()),
        };
        // Those who are cut off may still hold them.
        tokio::task::spawn_blocking(move || self.clusters.end()).await.map_err(io::Error::other)?;
        ended
    }
}

fn routes(site: Site, guard: safety::Guard) -> Router {
    let api = Router::new()
        .route("/", get(version))
        .route("/catalogue", get(catalogue))
        .route("/options", get(options))
        .route("/examples", get(examples))
        .route("/sources/{*name}", get(page::source))
        .route("/runs", post(make))
        .route("/runs/{id}", get(summary))
        .route("/runs/{id}/index", get(index))
        .route("/runs/{id}/events", get(events))
        .route("/runs/{id}/at/{moment}", get(at))
        .route("/runs/{id}/order/{event}", get(order))
        .route("/runs/{id}/cut", post(cut))
        .route("/runs/{id}/fork", post(fork))
        .route("/runs/{id}/compare/{other}", get(compare))
        .route("/runs/{id}/export/{format}", get(export))
        .route("/runs/{id}/shrink", post(shrink))
        .merge(jobs::routes())
        .merge(lessons::routes())
        .merge(clusters::routes());
    let router = Router::new()
        .nest("/api/v1", api)
        .fallback(page::serve)
        .method_not_allowed_fallback(answer::method)
        .with_state(site.clone());
    let router = match guard.secret() {
        Some(secret) => Router::new()
            .nest(&format!("/{secret}"), router.clone())
            .route(&format!("/{secret}/"), get(page::first).with_state(site))
            .fallback(safety::no_secret),
        None => router,
    };
    router.layer(middleware::from_fn_with_state(Arc::new(guard), safety::check))
}

async fn version(State(site): State<Site>) -> Response {
    let limits = site.lab.limits;
    answer(&json!({
        "name": "conclave lab", "version": env!("CARGO_PKG_VERSION"), "api": 1,
        "limits": {
            "body_bytes": limits.body_bytes, "processes": limits.processes, "events": limits.events, "page": limits.page,
            "seconds": limits.seconds, "jobs": limits.jobs, "job_seconds": limits.job_seconds, "job_bytes": limits.job_bytes,
            "clusters": limits.clusters, "cluster_processes": limits.cluster_processes,
        },
    }))
}

async fn catalogue(State(site): State<Site>) -> Result<Response, Failed> {
    site.light(|lab| Ok(lab.bench.catalogue())).await
}

async fn options(State(site): State<Site>) -> Result<Response, Failed> {
    site.light(|lab| Ok(lab.bench.options())).await
}

async fn examples(State(site): State<Site>) -> Result<Response, Failed> {
    site.light(|_| {
        let examples = conclave_sim::examples::all();
        let row = |example: &conclave_sim::examples::Example| {
            json!({ "name": example.name, "title": example.title, "algorithm": example.algorithm(), "idea": example.look_at,
                "source": example.source, "breaks": example.breaks() })
        };
        Ok(json!({ "examples": examples.iter().map(row).collect::<Vec<_>>() }))
    })
    .await
}

async fn make(State(site): State<Site>, Json(recipe): Json<Recipe>) -> Result<Response, Failed> {
    site.made(recipe.checked()?).await
}

async fn fork(
    State(site): State<Site>,
    Path(id): Path<String>,
    Json(fork): Json<Fork>,
) -> Result<Response, Failed> {
    let parent = site.lab.find(&id)?;
    let mut recipe = parent.recipe.clone().ok_or_else(|| {
        Problem::refused("a live run has no recipe").hint("export its script, and make a run of that")
    })?;
    recipe.forks.push(fork);
    site.made(recipe.checked()?).await
}

async fn summary(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    site.light(move |_| Ok(run.summary())).await
}

async fn index(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    site.light(move |_| Ok(run.index())).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    from: usize,
    limit: Option<usize>,
    stamps: Option<String>,
    count: Option<String>,
}

async fn events(
    State(site): State<Site>,
    Path(id): Path<String>,
    answer::Asked(page): answer::Asked<Page>,
) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    let most = site.lab.limits.page;
    let counted = match page.count.as_deref() {
        None | Some("messages") => Counted::Messages,
        Some("all") => Counted::Everything,
        Some(other) => {
            return Err(Problem::malformed(format!("count is 'messages' or 'all', and not '{other}'")).into());
        }
    };
    let vectors = match page.stamps.as_deref() {
        None | Some("lamport") => None,
        Some("vector") => Some(counted),
        Some(other) => {
            return Err(
                Problem::malformed(format!("stamps is 'lamport' or 'vector', and not '{other}'")).into()
            );
        }
    };
    site.light(move |_| run.events(page.from, page.limit.unwrap_or(500).min(most), vectors)).await
}

async fn at(
    State(site): State<Site>,
    Path((id, moment)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    let moment: usize = number(&moment, "a moment")?;
    let mut of = BTreeSet::new();
    for word in query.get("of").map_or("", String::as_str).split(',').filter(|word| !word.is_empty()) {
        of.insert(NodeId(number(word, "the id of a process")?));
    }
    site.light(move |_| run.at(moment, &of)).await
}

fn number<T: core::str::FromStr>(word: &str, what: &str) -> Result<T, Problem> {
    word.parse().map_err(|_| Problem::malformed(format!("'{word}' is not {what}")))
}

async fn order(
    State(site): State<Site>,
    Path((id, event)): Path<(String, String)>,
) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    let event = number(&event, "the number of an event")?;
    site.light(move |_| run.order(event)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frontier {
    frontier: BTreeMap<u32, u64>,
}

async fn cut(
    State(site): State<Site>,
    Path(id): Path<String>,
    Json(Frontier { frontier }): Json<Frontier>,
) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    let frontier = frontier.into_iter().map(|(id, event)| (NodeId(id), event)).collect();
    site.light(move |_| run.cut(&frontier)).await
}

async fn compare(
    State(site): State<Site>,
    Path((id, other)): Path<(String, String)>,
) -> Result<Response, Failed> {
    let (left, right) = (site.lab.find(&id)?, site.lab.find(&other)?);
    site.light(move |_| Ok(left.compared(&right))).await
}

async fn shrink(
    State(site): State<Site>,
    Path(id): Path<String>,
    Json(_): Json<Value>,
) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    site.answered(Lane::Heavy, move |lab| Ok(lab.shrunk(&run)?.summary())).await
}

async fn export(
    State(site): State<Site>,
    Path((id, format)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Failed> {
    let run = site.lab.find(&id)?;
    let lab = Arc::clone(&site.lab);
    let mut query: Options = query.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    let download = query.remove("download").is_some_and(|wanted| wanted == "1");
    let name = format!("run.{}", page::ending(&format));
    let (media, bytes) = site.work.run(Lane::Heavy, move || lab.bench.export(&run, &format, &query)).await?;
    Ok(file(media, bytes, download.then_some(name.as_str())))
}

impl Site {
    /// Answers what takes little time.
    async fn light(
        &self,
        answer: impl FnOnce(&Lab) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<Response, Failed> {
        self.answered(Lane::Light, answer).await
    }

    async fn answered(
        &self,
        lane: Lane,
        answer: impl FnOnce(&Lab) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<Response, Failed> {
        let lab = Arc::clone(&self.lab);
        // Large answers take time to be written, too.
        let bytes = self.work.run(lane, move || Ok(answer(&lab)?.to_string().into_bytes())).await?;
        Ok(file("application/json", bytes, None))
    }

    /// Makes a run: a small one at once, a large one after the other large ones.
    async fn made(&self, recipe: Recipe) -> Result<Response, Failed> {
        /// About so many messages are simulated in a few milliseconds.
        const SMALL: u64 = 5_000;
        let lab = Arc::clone(&self.lab);
        let wanted = recipe.clone();
        let weight = self.work.run(Lane::Light, move || lab.weight(&wanted)).await?;
        let lane = if weight <= SMALL { Lane::Light } else { Lane::Heavy };
        self.answered(lane, move |lab| Ok(lab.run(&recipe)?.summary())).await
    }
}
