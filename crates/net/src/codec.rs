//! How bytes become messages and durable values again.

use std::sync::Arc;

use conclave_algorithms::erased::{Erased, ErasedConfig};
use conclave_core::Protocol;
use serde::de::DeserializeOwned;

/// Reads what [`postcard`] wrote, all of it.
type Read<T> = Arc<dyn Fn(&[u8]) -> Option<T> + Send + Sync>;

/// How the messages and durable values of a protocol are read.
pub struct Codec<P: Protocol> {
    pub(crate) message: Read<P::Message>,
    pub(crate) durable: Read<P::Durable>,
}

impl<P: Protocol<Message: DeserializeOwned, Durable: DeserializeOwned>> Codec<P> {
    /// Of a protocol whose types can be read by themselves.
    #[must_use]
    pub fn typed() -> Self {
        Self { message: Arc::new(read), durable: Arc::new(read) }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}

impl Codec<Erased> {
    /// Of whichever algorithm these settings belong to. The bytes are the same as those of its own types.
    #[must_use]
    pub fn erased(config: &ErasedConfig) -> Self {
        let (messages, durables) = (config.clone(), config.clone());
        Self {
            message: Arc::new(move |bytes| read_erased(bytes, |from| messages.read_message(from))),
            durable: Arc::new(move |bytes| read_erased(bytes, |from| durables.read_durable(from))),
        }
    }
}

fn read_erased<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut dyn erased_serde::Deserializer<'_>) -> Result<T, erased_serde::Error>,
) -> Option<T> {
    let mut from = postcard::Deserializer::from_bytes(bytes);
    let value = read(&mut <dyn erased_serde::Deserializer<'_>>::erase(&mut from)).ok()?;
    from.finalize().ok()?.is_empty().then_some(value)
}
