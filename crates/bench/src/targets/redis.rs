//! Redis as a lock: `SET name value NX PX ttl`, given back by a script that deletes the name only while the value is
//! still ours. One server, no replication: what it promises is what its append-only file keeps.
//!
//! Redis has no queue, so a client that finds the lock taken asks again a little later; there is no fencing token.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use super::Endpoints;
use super::frames::Frames;
use crate::target::{Client, Crowd, Role, Target, TargetError, Work};

/// How long a client waits before it asks again for a lock that is taken.
const POLL: Duration = Duration::from_millis(1);
/// Deletes the lock if it is still ours.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// A Redis server.
#[derive(Debug)]
pub struct Redis {
    endpoints: Endpoints,
    ttl: Duration,
    clients: AtomicU64,
}

impl Redis {
    /// The servers at these endpoints, each on its own.
    pub fn new(endpoints: Endpoints, ttl: Duration) -> Self {
        Self { endpoints, ttl, clients: AtomicU64::new(0) }
    }
}

impl Target for Redis {
    fn client(&self) -> Work<'_, Box<dyn Client>> {
        Box::pin(async {
            let mut frames = Frames::connect(self.endpoints.next()?).await?;
            let script = match ask(&mut frames, &["SCRIPT", "LOAD", RELEASE]).await? {
                Reply::Text(hash) => hash,
                other => return Err(unexpected(&other)),
            };
            let number = self.clients.fetch_add(1, Ordering::Relaxed);
            let client = RedisClient {
                frames,
                script,
                me: format!("{}-{number}", std::process::id()),
                ttl_ms: self.ttl.as_millis().to_string(),
                held: String::new(),
            };
            Ok(Box::new(client) as Box<dyn Client>)
        })
    }

    fn endpoints(&self) -> &[String] {
        self.endpoints.all()
    }

    fn role(&self, endpoint: usize) -> Work<'_, Role> {
        Box::pin(async move {
            let mut frames = Frames::connect(self.endpoints.at(endpoint)?).await?;
            match ask(&mut frames, &["PING"]).await? {
                Reply::Text(_) => Ok(Role::Leader),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn crowd(&self, _sessions: usize) -> Work<'_, Box<dyn Crowd>> {
        Box::pin(async { Err(TargetError::Unsupported { kind: "redis", what: "queue waiters" }) })
    }
}

struct RedisClient {
    frames: Frames,
    script: String,
    me: String,
    ttl_ms: String,
    held: String,
}

impl Client for RedisClient {
    fn acquire<'a>(&'a mut self, name: &'a str) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            loop {
                let set = ["SET", name, &self.me, "NX", "PX", &self.ttl_ms];
                match ask(&mut self.frames, &set).await? {
                    Reply::Text(_) => break,
                    Reply::Nothing => tokio::time::sleep(POLL).await,
                    other @ Reply::Number(_) => return Err(unexpected(&other)),
                }
            }
            name.clone_into(&mut self.held);
            Ok(None)
        })
    }

    fn release(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            let delete = ["EVALSHA", &self.script, "1", &self.held, &self.me];
            match ask(&mut self.frames, &delete).await? {
                Reply::Number(1) => Ok(()),
                Reply::Number(_) => Err(TargetError::Refused("the lock was not ours any more".to_owned())),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn close(self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// What Redis answers to the few commands used here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reply {
    Text(String),
    Number(i64),
    Nothing,
}

fn unexpected(reply: &Reply) -> TargetError {
    TargetError::Garbled(format!("{reply:?}"))
}

async fn ask(frames: &mut Frames, words: &[&str]) -> Result<Reply, TargetError> {
    frames.send(&request(words)).await?;
    frames.next(take_reply).await?.map_err(TargetError::Refused)
}

/// A command as an array of bulk strings.
fn request(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

/// Cuts one reply off the front; the inner error is one that the server reports.
fn take_reply(buffer: &mut BytesMut) -> Result<Option<Result<Reply, String>>, TargetError> {
    let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") else {
        return Ok(None);
    };
    let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let garbled = || TargetError::Garbled(line.clone());
    let (mark, rest) = line.split_at_checked(1).ok_or_else(garbled)?;
    let reply = match mark {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Err(rest.to_owned()),
        ":" => Ok(Reply::Number(rest.parse().map_err(|_| garbled())?)),
        "$" if rest == "-1" => Ok(Reply::Nothing),
        "$" => {
            let length: usize = rest.parse().map_err(|_| garbled())?;
            let whole = end.checked_add(4).and_then(|more| more.checked_add(length)).ok_or_else(garbled)?;
            if buffer.len() < whole {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&buffer[end + 2..end + 2 + length]).into_owned();
            buffer.advance(length + 2);
            Ok(Reply::Text(text))
        }
        _ => return Err(garbled()),
    };
    buffer.advance(end + 2);
    Ok(Some(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_off_one_by_one_and_never_halfway() {
        let wire = b"+OK\r\n$-1\r\n:1\r\n$3\r\nabc\r\n-ERR no\r\n";
        let mut whole = Vec::new();
        let mut buffer = BytesMut::new();
        for byte in wire {
            buffer.extend_from_slice(&[*byte]);
            whole.extend(take_reply(&mut buffer).expect("well-formed"));
        }
        let text = |text: &str| Ok(Reply::Text(text.to_owned()));
        let expected =
            [text("OK"), Ok(Reply::Nothing), Ok(Reply::Number(1)), text("abc"), Err("ERR no".to_owned())];
        assert_eq!(whole, expected);
        assert!(buffer.is_empty(), "all bytes are used");
    }

    #[test]
    fn nonsense_is_refused() {
        for wire in ["\r\n", "?\r\n", ":x\r\n", "$-2\r\n", "$99999999999999999999\r\n"] {
            assert!(take_reply(&mut BytesMut::from(wire)).is_err(), "{wire:?}");
        }
    }

    #[test]
    fn a_request_counts_its_words_and_bytes() {
        assert_eq!(request(&["GET", "ключ"]), "*2\r\n$3\r\nGET\r\n$8\r\nключ\r\n".as_bytes());
    }
}
