//! GraphQL resolvers, REST, tokens and sessions.
