//! The same scenarios against every host that can be had: protocol servers on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bad_days;
mod commits;
mod pull_requests;
mod support;

/// One test for each host.
macro_rules! each_host {
    ($($scenario:ident),+ $(,)?) => {
        mod github {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(crate::support::World::new(plural_testkit::ScmDialect::GitHub)).await;
            })+
        }
        mod gitea {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(crate::support::World::new(plural_testkit::ScmDialect::Gitea)).await;
            })+
        }
    };
}
pub(crate) use each_host;
