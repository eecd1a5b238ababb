//! The same scenarios against every host that can be had: protocol servers on loopback, and Gitea itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bad_days;
mod commits;
mod folders;
mod own_ways;
mod plain;
mod pull_requests;
mod real_gitea;
mod reviews;
mod support;

/// One test for each host, Gitea itself among them; `stand_ins` are those that only protocol servers show on demand.
macro_rules! each_host {
    ($($scenario:ident),+ $(,)? $(; stand_ins: $($only:ident),+ $(,)?)?) => {
        crate::each_stand_in!($($scenario),+ $(, $($only),+)?);
        mod real_gitea {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let Some(world) = crate::support::World::real() else { return };
                super::$scenario(world).await;
            })+
        }
    };
}
pub(crate) use each_host;

/// One test for plain git, for what it has: commits and branches.
macro_rules! on_plain_git {
    ($($scenario:ident),+ $(,)?) => {
        mod plain_git {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(crate::support::World::plain()).await;
            })+
        }
    };
}
pub(crate) use on_plain_git;

/// One test for each protocol server.
macro_rules! each_stand_in {
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
        mod bitbucket_cloud {
            $(#[tokio::test]
            async fn $scenario() {
                let dialect = plural_testkit::ScmDialect::BitbucketCloud;
                super::$scenario(crate::support::World::new(dialect)).await;
            })+
        }
        mod bitbucket_data_center {
            $(#[tokio::test]
            async fn $scenario() {
                let dialect = plural_testkit::ScmDialect::BitbucketDataCenter;
                super::$scenario(crate::support::World::new(dialect)).await;
            })+
        }
        mod azure_devops {
            $(#[tokio::test]
            async fn $scenario() {
                let dialect = plural_testkit::ScmDialect::AzureDevOps;
                super::$scenario(crate::support::World::new(dialect)).await;
            })+
        }
        mod gitlab {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(crate::support::World::new(plural_testkit::ScmDialect::GitLab)).await;
            })+
        }
    };
}
pub(crate) use each_stand_in;
