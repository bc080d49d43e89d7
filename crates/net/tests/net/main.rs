//! Real sockets on this machine, with ports that the system chooses.

mod algorithm;
mod chat;
mod exchange;
mod group;
mod hostile;
mod life;
mod proxy;
mod refusal;
mod save;
mod slow;
mod tls;
mod ways;
