//! PostgreSQL and SQLite behind the ports of app. The only SQL.
