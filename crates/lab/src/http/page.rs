//! The files of the page.

use std::path::{self, Component, PathBuf};

use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;

use super::Site;
use super::answer::{Failed, Path, file, method};
use crate::{Code, Problem};

/// Name and content of every file of the page.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Name and text of every source that the page of an algorithm links to.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The files of the page, from the program or from a folder.
pub struct Pages {
    folder: Option<PathBuf>,
}

impl Pages {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    fn find(&self, name: &str) -> Option<Vec<u8>> {
        let Some(folder) = &self.folder else {
            return FILES.iter().find(|(known, _)| *known == name).map(|(_, content)| content.to_vec());
        };
        let path = path::Path::new(name);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        is_inside.then(|| std::fs::read(folder.join(path)).ok()).flatten()
    }
}

/// A file of the page.
pub async fn serve(State(site): State<Site>, asked: Method, uri: Uri) -> Result<Response, Failed> {
    let name = uri.path().trim_start_matches('/');
    if asked != Method::GET && asked != Method::HEAD {
        return Err(method().await);
    }
    let name = if name.is_empty() { "index.html" } else { name };
    let found = site.pages.find(name).zip(media(name));
    let (content, media) =
        found.ok_or_else(|| Problem::new(Code::Unknown, format!("there is nothing at '{}'", uri.path())))?;
    Ok(file(media, content, None))
}

/// The source of an algorithm, to be read.
pub async fn source(Path(name): Path<String>) -> Result<Response, Failed> {
    let found = SOURCES.iter().find(|(known, _)| *known == name);
    let (_, text) = found
        .ok_or_else(|| Problem::new(Code::Unknown, format!("there is no source '{name}' of an algorithm")))?;
    Ok(file("text/plain; charset=utf-8", text.as_bytes().to_vec(), None))
}

/// The page itself.
pub async fn first(state: State<Site>) -> Result<Response, Failed> {
    serve(state, Method::GET, Uri::from_static("/")).await
}

fn media(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => return None,
    })
}

/// How the file of a format is called.
pub fn ending(format: &str) -> &str {
    match format {
        "mermaid" => "mmd",
        "shiviz" => "log",
        other => other,
    }
}
