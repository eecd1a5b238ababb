//! The phases of a sync.

/// One phase. They run in this order; the last two only on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Before anything else.
    PreSync,
    /// The objects themselves.
    Sync,
    /// Once all of them are healthy.
    PostSync,
    /// Only when one of the earlier phases failed.
    SyncFail,
    /// Only when a person asked for the chart's tests.
    Test,
}

impl Phase {
    /// All, in order.
    pub const ALL: [Self; 5] = [Self::PreSync, Self::Sync, Self::PostSync, Self::SyncFail, Self::Test];

    /// The word for people and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreSync => "pre-sync",
            Self::Sync => "sync",
            Self::PostSync => "post-sync",
            Self::SyncFail => "sync-fail",
            Self::Test => "test",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }
}

/// A set of phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Phases(u8);

impl Phases {
    pub(crate) const fn of(phase: Phase) -> Self {
        Self(1 << phase as u8)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, phase: Phase) -> bool {
        self.0 & Self::of(phase).0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
