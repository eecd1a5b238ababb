//! The auth proxy's part of the contract: many byte streams on one call, and who is asking on each.
//!
//! The console opens a stream for each request of a person ([`Channel::open`]), the agent answers it. Neither side
//! holds more of a body than the window of its stream, and a stream whose reader is slow stops only its own sender.

mod assertion;
mod channel;
mod exchange;
mod headers;
mod replay;
mod target;
#[cfg(test)]
mod tests;
mod window;

pub use assertion::{
    Asserted, AssertionError, AssertionKey, AssertionTerms, Verifier, public_key_of, request_digest,
};
pub use channel::{Channel, ChannelError, ChannelOptions, Outgoing};
pub use exchange::{Broken, Exchange, Receiving, Sending};
pub use headers::{
    WEBSOCKET_TOKEN_PREFIX, forwarded_request_headers, forwarded_response_headers, header_map,
};
pub use target::{TargetError, check_target};
