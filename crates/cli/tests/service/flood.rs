//! Connections that say nothing, or half of something, and clients that do not listen.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use conclave_client::v1;
use conclave_client::v1::command::Act;
use conclave_wire::GREETING;

use crate::hostile::runtime;
use crate::nodes::Service;
use crate::talker::{Talker, command, lock};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The beginning of a call of `Talk`, in the plainest encoding of headers.
fn call() -> Vec<u8> {
    let mut headers = vec![0x83, 0x86];
    let text = |headers: &mut Vec<u8>, text: &str| {
        headers.push(u8::try_from(text.len()).expect("it is short"));
        headers.extend_from_slice(text.as_bytes());
    };
    headers.push(0x04);
    text(&mut headers, "/conclave.v1.Conclave/Talk");
    headers.push(0x01);
    text(&mut headers, "localhost");
    headers.extend_from_slice(&[0x0f, 0x10]);
    text(&mut headers, "application/grpc");
    headers.push(0x00);
    text(&mut headers, "te");
    text(&mut headers, "trailers");
    [PREFACE, &SETTINGS, &frame(1, 4, 1, &headers)].concat()
}

/// Connects and says this, and no more.
fn say(service: &Service, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(service.address(1)).expect("it listens");
    stream.set_read_timeout(Some(crate::PATIENCE)).expect("a span");
    stream.write_all(words).expect("it listens");
    stream
}

/// Reads one frame; says whether it is the end of the call, which has a status and a reason in it.
fn is_end(stream: &mut TcpStream) -> bool {
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("it answers before it closes");
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    stream.read_exact(&mut payload).expect("the frame goes on");
    let (is_headers, ends_stream) = (head[3] == 1, head[4] & 1 == 1);
    is_headers && ends_stream && payload.len() > 20
}

#[test]
fn connections_that_say_nothing_or_half_of_something_harm_nobody() {
    let service = Service::one();
    let holder = service.hold("lock kept", "in");
    let before = service.memory(1);
    // A message that is announced with 1 MiB less one byte, of which ten bytes come.
    let half = [call(), frame(0, 0, 1, &[0, 0, 0x0f, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])].concat();
    let half_frame = [GREETING, &b"m\x00\x0f\xff\xff some of it"[..]].concat();
    let mut open = Vec::new();
    for words in [&b""[..], b"PRI * HT", PREFACE, &half, b"conclave", GREETING, &half_frame] {
        open.extend((0..1_000).map(|_| say(&service, words)));
        service.still_serves();
    }
    let after = service.memory(1);
    assert!(after < before + 200, "from {before} to {after} MiB");
    holder.let_go();
    drop(open);
    service.still_serves();
}

#[test]
fn words_that_are_no_protocol_and_messages_that_are_too_large_end_the_connection() {
    let service = Service::one();
    let huge = [call(), frame(0, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3])].concat();
    let no_frame = [PREFACE, &SETTINGS, &[0xff; 64]].concat();
    let no_direct_frame = [&GREETING[..], &[0xff; 64]].concat();
    let words = [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[0xff; 4096], &no_frame, &no_direct_frame];
    for words in words {
        let mut heard = Vec::new();
        // It may close at once, before it has read everything.
        let _ = say(&service, words).read_to_end(&mut heard);
        assert!(heard.len() < 4_096, "{} bytes", heard.len());
        service.still_serves();
    }
    let mut stream = say(&service, &huge);
    while !is_end(&mut stream) {}
    let mut heard = Vec::new();
    let huge = [&GREETING[..], b"m\xff\xff\xff\xff"].concat();
    say(&service, &huge).read_to_end(&mut heard).expect("it closes");
    assert!(heard.ends_with(b"a message of 4294967295 bytes: 1048576 at most"), "{heard:?}");
    assert!(service.memory(1) < 300, "{} MiB", service.memory(1));
    service.still_serves();
}

#[test]
fn a_client_that_does_not_listen_is_let_go_and_costs_little() {
    let service = Service::one();
    let before = service.memory(1);
    let runtime = runtime();
    runtime.block_on(async {
        let mut deaf = Talker::meet(service.address(1)).await;
        deaf.open(1).await;
        deaf.granted(1, 2, lock("a")).await;
        let mut request = 2;
        // Every one of these is refused with a sentence that nobody reads.
        for _ in 0..300 {
            let commands = (0..1_000).map(|_| {
                request += 1;
                let act = Act::Release(v1::Release { token: u64::MAX });
                v1::Command { acked: request, ..command(1, request, act) }
            });
            deaf.say(commands.collect());
        }
        tokio::task::block_in_place(|| {
            crate::until("it is let go", || service.log(1).contains("does not read what it is told"));
            let after = service.memory(1);
            assert!(after < before + 200, "from {before} to {after} MiB");
            service.still_serves();
        });
        drop(deaf);
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
}
