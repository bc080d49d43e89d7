//! The names of messages.

/// The name of the variant that a message is, for [`Message::kind`](conclave_core::Message::kind). All have to be listed.
macro_rules! kinds {
    ($message:expr, $($kind:ident),+ $(,)?) => {
        match $message {
            $(Self::$kind { .. } => stringify!($kind),)+
        }
    };
}
