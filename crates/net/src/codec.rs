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

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}

impl Codec<Erased> {
    /// Of whichever algorithm these settings belong to. The bytes are the same as those of its own types.
    #[must_use]
    pub fn erased(config: &ErasedConfig) -> Self {
        let (messages, durables) = (config.clone(), config.clone());
        Self {
            message: Arc::new(move |bytes| messages.read_message(bytes)),
            durable: Arc::new(move |bytes| durables.read_durable(bytes)),
        }
    }
}
