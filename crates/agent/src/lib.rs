//! Wiring of the agent: stream, poll loop, services.
