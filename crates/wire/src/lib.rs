//! GraphQL and REST shapes, error body, and the typed client.
