//! The auth proxy's part of the contract: many byte streams on one call, and who is asking on each.
//!
//! The console opens a stream for each request of a person ([`Channel::open`]), the agent answers it. Neither side
//! holds more of a body than the window of its stream, and a stream whose reader is slow stops only its own sender.
//!
//! Neither HTTP/2 nor yamux runs inside the call: its frames are messages of the contract already, and a
//! second protocol in their bytes would have flow control and keep-alives of its own. Here a request carries
//! its signed assertion and a reset its reason, small frames overtake data, each window grows with the
//! connection's round trip, and one number limits the growth of all windows of a channel.

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
