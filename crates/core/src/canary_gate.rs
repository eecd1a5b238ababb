//! Gates that canaries stand before: Flagger asks whether it may take a canary further, and a person says so once.

use chrono::{DateTime, TimeDelta, Utc};

use crate::promotion::Promotion;

/// A gate that nobody asked at for so long is of a canary that is over.
const FRESH: TimeDelta = TimeDelta::minutes(30);
/// Bytes of a name and of a checksum.
const LONGEST: usize = 253;

/// What Flagger asks, named as its web hooks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateHook {
    /// Whether the canary may begin.
    ConfirmRollout,
    /// Whether it may get more of the traffic.
    ConfirmTrafficIncrease,
    /// Whether it may become what everybody gets.
    ConfirmPromotion,
    /// Whether it should go back.
    Rollback,
}

impl GateHook {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::ConfirmRollout, Self::ConfirmTrafficIncrease, Self::ConfirmPromotion, Self::Rollback];

    /// The word in a path and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfirmRollout => "confirm-rollout",
            Self::ConfirmTrafficIncrease => "confirm-traffic-increase",
            Self::ConfirmPromotion => "confirm-promotion",
            Self::Rollback => "rollback",
        }
    }

    /// The hook of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.as_str() == text)
    }

    /// What a person says to open it.
    pub const fn opened_by(self) -> Promotion {
        match self {
            Self::ConfirmRollout | Self::ConfirmTrafficIncrease | Self::ConfirmPromotion => {
                Promotion::Proceed
            }
            Self::Rollback => Promotion::Rollback,
        }
    }

    /// It is shut again once somebody went through. The others are asked at again and again while one canary goes on, and stay
    /// open for that one.
    pub const fn is_for_once(self) -> bool {
        match self {
            Self::ConfirmTrafficIncrease | Self::Rollback => true,
            Self::ConfirmRollout | Self::ConfirmPromotion => false,
        }
    }
}

/// A canary that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateQuestion {
    /// Namespace of the Canary.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it asks.
    pub hook: GateHook,
    /// Says which of its releases it is: Flagger's hash of what it was last given.
    pub checksum: String,
}

impl GateQuestion {
    /// Every part is there and short.
    pub fn is_well_formed(&self) -> bool {
        let Self { namespace, name, hook: _, checksum } = self;
        [namespace, name, checksum].iter().all(|text| {
            (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        })
    }
}

/// A gate as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryGate {
    /// Which release of the canary stands before it.
    pub checksum: String,
    /// When it was last asked at.
    pub asked_at: DateTime<Utc>,
    /// When a person opened it.
    pub opened_at: Option<DateTime<Utc>>,
}

impl CanaryGate {
    /// Somebody stands before it now.
    pub fn is_waited_at(&self, now: DateTime<Utc>) -> bool {
        now - self.asked_at < FRESH
    }

    /// This release may pass now.
    pub fn lets_through(&self, checksum: &str, now: DateTime<Utc>) -> bool {
        self.checksum == checksum && self.opened_at.is_some() && self.is_waited_at(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_release_that_waited_when_it_was_opened_passes() {
        let now = Utc::now();
        let gate = CanaryGate { checksum: "a".to_owned(), asked_at: now, opened_at: Some(now) };
        assert!(gate.lets_through("a", now + TimeDelta::minutes(29)));
        assert!(!gate.lets_through("b", now), "the next one is not seen by anybody yet");
        assert!(!gate.lets_through("a", now + FRESH), "that canary is over");
        let shut = CanaryGate { opened_at: None, ..gate };
        assert!(!shut.lets_through("a", now) && shut.is_waited_at(now));
    }

    #[test]
    fn names() {
        for hook in GateHook::ALL {
            assert_eq!(GateHook::parse(hook.as_str()), Some(hook));
        }
        assert_eq!(GateHook::parse("rollout"), None);
        let asks = |name: &str, checksum: &str| GateQuestion {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            hook: GateHook::Rollback,
            checksum: checksum.to_owned(),
        };
        assert!(asks("web", "5b7d8c").is_well_formed());
        for odd in [asks("", "a"), asks("web", ""), asks("we b", "a"), asks("web", &"x".repeat(300))] {
            assert!(!odd.is_well_formed(), "{odd:?}");
        }
    }
}
