//! Streams that break: opened again, less and less often, and given up where that is of no use.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conclave_client::v1::conclave_server::{Conclave, ConclaveServer};
use conclave_client::{Client, Error, v1};
use conclave_wire::{Tcp, Transport as _};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Answer<T> = Result<Response<T>, Status>;

/// A node that can only be watched, and says the same whenever it is.
#[derive(Clone)]
struct Broken {
    says: Result<v1::WatchResponse, Status>,
    opened: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Conclave for Broken {
    type TalkStream = Answers<v1::ToClient>;
    type ObserveStream = Answers<v1::ObserveResponse>;
    type WatchStream = Answers<v1::WatchResponse>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(Box::pin(tokio_stream::once(self.says.clone()))))
    }

    async fn talk(&self, _: Request<Streaming<v1::ToServer>>) -> Answer<Self::TalkStream> {
        Err(Status::unimplemented("not here"))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn show(&self, _: Request<v1::ShowRequest>) -> Answer<v1::ShowResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_sessions(&self, _: Request<v1::ListSessionsRequest>) -> Answer<v1::ListSessionsResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn show_session(&self, _: Request<v1::ShowSessionRequest>) -> Answer<v1::ShowSessionResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn why(&self, _: Request<v1::WhyRequest>) -> Answer<v1::WhyResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn check(&self, _: Request<v1::CheckRequest>) -> Answer<v1::CheckResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn observe(&self, _: Request<v1::ObserveRequest>) -> Answer<Self::ObserveStream> {
        Err(Status::unimplemented("not here"))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        Err(Status::unimplemented("not here"))
    }
}

/// Watches such a node until that fails; says why, and how often the stream was opened.
async fn watch(says: Result<v1::WatchResponse, Status>) -> (Error, u64) {
    let opened = Arc::new(AtomicU64::new(0));
    let node = Broken { says, opened: Arc::clone(&opened) };
    let (incoming, address) = Tcp.listen("127.0.0.1:0".to_owned()).await.expect("a port is free");
    let serving = tonic::transport::Server::builder()
        .add_service(ConclaveServer::new(node))
        .serve_with_incoming(incoming);
    let serving = tokio::spawn(serving);
    let client = Client::new([address]).expect("the address is right");
    let mut watcher = client.watch("");
    let failed = loop {
        match watcher.next().await {
            Ok(None) => {}
            Ok(Some(news)) => panic!("{} names", news.names.len()),
            Err(error) => break error,
        }
    };
    serving.abort();
    (failed, opened.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_message_that_is_too_large_is_an_error_at_once() {
    let gone = (0..100_000).map(|index| format!("a name that is not short, number {index:09}")).collect();
    let (error, opened) = watch(Ok(v1::WatchResponse { gone, ..v1::WatchResponse::default() })).await;
    assert!(matches!(&error, Error::Protocol(why) if why.text().contains("large")), "{error}");
    assert_eq!(opened, 1, "it would be no smaller if it were asked for again");
}

#[tokio::test]
async fn a_stream_that_breaks_again_and_again_is_given_up() {
    let (error, opened) = watch(Err(Status::unavailable("not now"))).await;
    assert!(matches!(&error, Error::Unavailable(why) if why.text().contains("not now")), "{error}");
    assert!((2..10).contains(&opened), "opened {opened} times");
}
