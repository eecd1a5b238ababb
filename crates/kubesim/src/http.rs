//! The HTTP side: connections, content negotiation, answers.

pub(crate) mod accept;
pub(crate) mod dispatch;
pub(crate) mod reply;
pub(crate) mod serve;
