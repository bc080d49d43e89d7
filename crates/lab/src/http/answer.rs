//! Requests that are read, and answers.

use axum::body::{Body, to_bytes};
use axum::extract::{self, FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Site;
use crate::{Code, Problem};

/// A problem on its way to whoever asked.
pub struct Failed(Problem);

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, json(&self.0.json())).into_response()
    }
}

/// An answer in JSON.
pub fn json(value: &Value) -> Response {
    file("application/json", value.to_string().into_bytes(), None)
}

/// A file; with a name the browser saves it.
pub fn file(media: &'static str, bytes: Vec<u8>, name: Option<&str>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    let saved = name.and_then(|name| HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")).ok());
    if let Some(saved) = saved {
        headers.insert(header::CONTENT_DISPOSITION, saved);
    }
    response
}

/// The answer to another method.
pub async fn method() -> Failed {
    Problem::new(Code::Method, "this address does not know this method").into()
}

/// The body of a request, read as JSON.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Site> for Json<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, site: &Site) -> Result<Self, Failed> {
        let media = request.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let is_json = media.is_some_and(|media| {
            media.split(';').next().is_some_and(|kind| kind.trim() == "application/json")
        });
        if !is_json {
            return Err(Problem::new(Code::Media, "the body is not JSON")
                .hint("send Content-Type: application/json")
                .into());
        }
        let most = site.lab.limits.body_bytes;
        let bytes = to_bytes(request.into_body(), most).await.map_err(|_| {
            Problem::new(
                Code::TooLong,
                format!("the body is longer than {most} bytes, or was not sent to its end"),
            )
        })?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| Problem::malformed(format!("the body cannot be read: {error}")))?;
        Ok(Self(value))
    }
}

/// What an address names.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Site> for Path<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Failed> {
        let named = extract::Path::from_request_parts(parts, site).await;
        let extract::Path(named) =
            named.map_err(|error| Problem::malformed(format!("the address cannot be read: {error}")))?;
        Ok(Self(named))
    }
}

/// What stands behind the question mark.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Site> for Asked<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _site: &Site) -> Result<Self, Failed> {
        let query = Query::try_from_uri(&parts.uri)
            .map_err(|error| Problem::malformed(format!("the query cannot be read: {error}")))?;
        let Query(value) = query;
        Ok(Self(value))
    }
}
