//! Clients that ask for what makes no sense, for what is not theirs, or for too much.

use std::time::{Duration, Instant};

use conclave_client::v1::command::Act;
use conclave_client::v1::failed::Code;
use conclave_client::v1::reply::Reply;
use conclave_client::{PROTOCOL, v1};
use tokio::runtime::Runtime;
use tonic::codegen::http::uri::PathAndQuery;

use crate::PATIENCE;
use crate::nodes::Service;
use crate::talker::{Talker, answer, call, channel, command, lock, open};

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("there are threads")
}

impl Service {
    /// Others are served as if nothing had been.
    #[track_caller]
    pub fn still_serves(&self) {
        let begun = Instant::now();
        self.shell("lock somebody-else --try", "exit 0").ends(0);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(!self.log(1).contains("panicked"), "{}", self.log(1));
    }

    /// The resident memory of a node, in MiB.
    pub fn memory(&self, id: u64) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid(id))).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    }
}

#[test]
fn names_and_times_that_make_no_sense_are_refused() {
    let service = Service::one();
    runtime().block_on(async {
        let mut talker = Talker::meet(service.address(1)).await;
        for (session, ttl_ms) in [(1, 0), (2, 499), (3, 24 * 60 * 60 * 1000 + 1), (4, u32::MAX)] {
            let (code, text) = talker.refused(session, 1, open(ttl_ms)).await;
            assert!(code == Code::Invalid && text.contains("500 ms at least"), "{ttl_ms}: {text}");
        }
        // The first version of the protocol did not say so.
        for (protocol, said) in [(0, 1), (PROTOCOL + 1, PROTOCOL + 1)] {
            let said = format!("version {said} of the protocol and the node version {PROTOCOL}");
            let act = Act::Open(v1::Open { ttl_ms: 10_000, protocol, ..v1::Open::default() });
            let (code, text) = talker.refused(5, 1, act).await;
            assert!(code == Code::Invalid && text.contains(&said), "{text}");
        }
        talker.open(5).await;
        let mut request = 1;
        for (name, code) in [
            (String::new(), Code::Invalid),
            ("x".repeat(513), Code::Invalid),
            ("x".repeat(200 * 1024), Code::Invalid),
            ("bell\u{7}".to_owned(), Code::Invalid),
            ("two\nlines".to_owned(), Code::Invalid),
            ("\0".to_owned(), Code::Invalid),
        ] {
            request += 1;
            let (said, text) = talker.refused(5, request, lock(&name)).await;
            assert_eq!(said, code, "{} bytes: {text}", name.len());
            assert!(text.len() < 200 && !text.contains('\u{7}'), "{text}");
        }
        for delay in [60 * 60 * 1000 + 1, u32::MAX] {
            request += 1;
            let Act::Acquire(acquire) = lock("a") else { unreachable!("it is one") };
            let act = Act::Acquire(v1::Acquire { lock_delay_ms: delay, ..acquire });
            assert_eq!(talker.refused(5, request, act).await.0, Code::Invalid);
        }
        // What cannot be asked for cannot be asked about, either.
        let mut client = v1::conclave_client::ConclaveClient::new(channel(service.address(1)).await);
        for name in [String::new(), "x".repeat(513), "bell\u{7}".to_owned()] {
            let shown = client
                .show(call(v1::ShowRequest { name, ..Default::default() }))
                .await
                .expect("it answers")
                .into_inner();
            assert_eq!(shown.summary, None);
        }
        let token = talker.granted(5, request + 1, lock(&"x".repeat(512))).await;
        assert!(token > 0, "the longest name is one");
    });
    service.still_serves();
}

/// A command as bytes, in which a name need not be text.
#[derive(Clone, PartialEq, prost::Message)]
struct RawTalk {
    #[prost(message, repeated, tag = "1")]
    commands: Vec<RawCommand>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawCommand {
    #[prost(fixed64, tag = "1")]
    session: u64,
    #[prost(uint64, tag = "2")]
    request: u64,
    #[prost(message, optional, tag = "13")]
    force: Option<RawForce>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawForce {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
}

/// Says one message and hears how the conversation ends.
async fn say_raw(service: &Service, name: Vec<u8>) -> String {
    let mut grpc = tonic::client::Grpc::new(channel(service.address(1)).await);
    grpc.ready().await.expect("it listens");
    let force = Some(RawForce { name });
    let said = RawTalk { commands: vec![RawCommand { session: 1, request: 1, force }] };
    // The stream stays open: the node ends it, not the client.
    let said = tokio_stream::StreamExt::chain(tokio_stream::once(said), tokio_stream::pending());
    let path = PathAndQuery::from_static("/conclave.v1.Conclave/Talk");
    let codec = tonic_prost::ProstCodec::<RawTalk, v1::ToClient>::default();
    let mut events = match grpc.streaming(tonic::Request::new(said), path, codec).await {
        Ok(events) => events.into_inner(),
        Err(status) => return status.to_string(),
    };
    loop {
        match tokio::time::timeout(PATIENCE, events.message()).await.expect("it ends") {
            Ok(Some(message)) if message.welcome.is_some() => {}
            Ok(other) => return format!("{other:?}"),
            Err(status) => return status.to_string(),
        }
    }
}

#[test]
fn what_is_no_message_is_refused_with_a_reason() {
    let service = Service::one();
    runtime().block_on(async {
        let no_text = say_raw(&service, vec![b'a', 0xff, 0xfe]).await;
        assert!(no_text.contains("UTF-8"), "{no_text}");
        // A name of 1 MiB makes a message that is larger than any may be.
        let too_large = say_raw(&service, vec![b'x'; 1 << 20]).await;
        assert!(too_large.contains("too large"), "{too_large}");
        let unary = v1::ShowRequest { name: "x".repeat(2 << 20), ..Default::default() };
        let mut client = v1::conclave_client::ConclaveClient::new(channel(service.address(1)).await);
        let refused = client.show(unary).await.expect_err("it is too large");
        assert!(refused.message().contains("too large"), "{refused}");
    });
    service.still_serves();
}

#[test]
fn what_belongs_to_others_cannot_be_taken() {
    let service = Service::one();
    runtime().block_on(async {
        let mut owner = Talker::meet(service.address(1)).await;
        owner.open(1).await;
        let token = owner.granted(1, 2, lock("a")).await;
        let campaign = |wait_ms| {
            let wants = vec![v1::Want { name: "chief".to_owned(), mode: None }];
            Act::Acquire(v1::Acquire {
                wants,
                campaign: Some(b"mine".to_vec().into()),
                wait_ms,
                ..v1::Acquire::default()
            })
        };
        let term = owner.granted(1, 3, campaign(Some(0))).await;

        let mut thief = Talker::meet(service.address(1)).await;
        for (session, code) in [(0, Code::Invalid), (77, Code::NoSession)] {
            for act in [
                Act::Renew(v1::Renew {}),
                Act::Close(v1::Close {}),
                lock("b"),
                Act::Release(v1::Release { token }),
            ] {
                assert_eq!(thief.refused(session, 1, act).await.0, code, "session {session}");
            }
        }
        thief.open(2).await;
        let shared = Some(v1::Mode { kind: v1::mode::Kind::Shared.into(), count: 0, limit: 0 });
        let convert =
            |token| Act::Convert(v1::Convert { token, name: "a".to_owned(), mode: shared, wait_ms: None });
        let proclaim = |token| Act::Proclaim(v1::Proclaim { token, value: b"stolen".to_vec().into() });
        let transfer = |token| Act::Transfer(v1::Transfer { token, to: 2 });
        let forged = [token, term, 0, u64::MAX];
        let mut request = 1;
        for token in forged {
            for act in [Act::Release(v1::Release { token }), convert(token), proclaim(token), transfer(token)]
            {
                request += 1;
                let (code, text) = thief.refused(2, request, act).await;
                assert_eq!(code, Code::NotHeld, "token {token}: {text}");
            }
        }
        let force = v1::Force { name: "a".to_owned(), token: Some(token + 1), reason: "mine".to_owned() };
        assert_eq!(thief.refused(2, request + 1, Act::Force(force)).await.0, Code::NotHeld);
        assert_eq!(thief.refused(2, request + 2, lock("a")).await.0, Code::Busy);

        let check = v1::CheckRequest { name: "a".to_owned(), token };
        let mut client = v1::conclave_client::ConclaveClient::new(channel(service.address(1)).await);
        let standing = client.check(call(check)).await.expect("it answers").into_inner();
        assert_eq!(standing.standing(), v1::check_response::Standing::Held);
        assert_eq!(service.show("chief")["value"], "mine");
        assert!(matches!(owner.ask(1, 4, Act::Release(v1::Release { token })).await, Reply::Done(_)));
    });
    service.still_serves();
}

#[test]
fn more_sessions_than_there_may_be_are_refused() {
    const ASKED: u64 = 100_000;
    const ALLOWED: u64 = 50_000;
    let service = Service::one();
    let holder = service.hold("lock kept --ttl 1min", "in");
    runtime().block_on(async {
        let mut greedy = Talker::meet(service.address(1)).await;
        let sessions: Vec<u64> = (1..=ASKED).collect();
        for some in sessions.chunks(1_000) {
            greedy.say(some.iter().map(|session| command(*session, 1, open(600_000))).collect());
        }
        let (mut opened, mut refused) = (0, 0);
        while opened + refused < ASKED {
            let message = greedy.hear().await.expect("the connection lives").expect("it goes on");
            for (_, reply) in message.events.into_iter().filter_map(answer) {
                match reply {
                    Reply::Opened(_) => opened += 1,
                    Reply::Failed(failed) if failed.code() == Code::Limit => {
                        refused += 1;
                        assert!(failed.text.contains("sessions"), "{}", failed.text);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(opened, ALLOWED - 1, "one is somebody else's");
        assert!(service.memory(1) < 512, "{} MiB", service.memory(1));
        // Whoever was there before is there still, and newcomers are told.
        service.shell("lock a", "exit 0").explains(124, "sessions");
        assert_eq!(service.show("kept")["holders"].as_array().map(Vec::len), Some(1));
    });
    // The sessions go with their connection.
    crate::until("there is room again", || service.shell("lock a", "exit 0").code == 0);
    holder.let_go();
}
