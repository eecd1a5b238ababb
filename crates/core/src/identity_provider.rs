//! An OpenID Connect provider that people sign in with, and what is believed of what it says.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::address::{Address, Scheme};
use crate::ids::{GroupId, IdentityProviderId};
use crate::name::{Email, Handle};
use crate::page::Keyed;
use crate::{Error, Result};

/// Groups that one provider may map.
const MAX_GROUPS: usize = 500;
/// Domains that one provider may speak for.
const MAX_DOMAINS: usize = 100;
/// Bytes of a text of a provider.
const LONGEST: usize = 512;

/// A provider. Its client secret is sealed in the store and never part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    /// Id.
    pub id: IdentityProviderId,
    /// Unique in the installation, and part of the address that it sends people back to: it never changes.
    pub name: Handle,
    /// Who it says it is. Accounts are tied to it, so it never changes.
    pub issuer: Issuer,
    /// What it knows this console as.
    pub client_id: String,
    /// A client secret is kept.
    pub has_secret: bool,
    /// What it is asked for besides `openid`.
    pub scopes: Vec<String>,
    /// The claim that lists groups; none are asked for without one.
    pub groups_claim: Option<String>,
    /// Which of its groups makes members of which of ours.
    pub groups: Vec<MappedGroup>,
    /// The domains whose e-mail addresses it may vouch for; `*` is all of them.
    pub domains: Vec<String>,
    /// Who signs in for the first time gets an account.
    pub creates_users: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// One of a provider's groups, and ours whose members come with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedGroup {
    /// As the provider writes it in its claim.
    pub claim: String,
    /// Ours.
    pub group: GroupId,
}

/// What a new provider is made from. Its secret travels beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIdentityProvider {
    /// Unique in the installation.
    pub name: Handle,
    /// Who it says it is.
    pub issuer: Issuer,
    /// The rest.
    pub settings: ProviderSettings,
}

/// What of a provider can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// What it knows this console as.
    pub client_id: String,
    /// What it is asked for besides `openid`.
    pub scopes: Vec<String>,
    /// The claim that lists groups.
    pub groups_claim: Option<String>,
    /// Which of its groups makes members of which of ours.
    pub groups: Vec<MappedGroup>,
    /// The domains whose e-mail addresses it may vouch for.
    pub domains: Vec<String>,
    /// Who signs in for the first time gets an account.
    pub creates_users: bool,
}

/// What changes of a provider; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderChange {
    /// What it knows this console as.
    pub client_id: Option<String>,
    /// What it is asked for.
    pub scopes: Option<Vec<String>>,
    /// The claim that lists groups; an empty one for none.
    pub groups_claim: Option<String>,
    /// Its groups and ours.
    pub groups: Option<Vec<MappedGroup>>,
    /// The domains that it may vouch for.
    pub domains: Option<Vec<String>>,
    /// Who signs in for the first time gets an account.
    pub creates_users: Option<bool>,
}

impl ProviderChange {
    /// The settings with this change.
    pub fn over(self, before: &IdentityProvider) -> ProviderSettings {
        let Self { client_id, scopes, groups_claim, groups, domains, creates_users } = self;
        ProviderSettings {
            client_id: client_id.unwrap_or_else(|| before.client_id.clone()),
            scopes: scopes.unwrap_or_else(|| before.scopes.clone()),
            groups_claim: match groups_claim {
                Some(claim) => Some(claim).filter(|claim| !claim.is_empty()),
                None => before.groups_claim.clone(),
            },
            groups: groups.unwrap_or_else(|| before.groups.clone()),
            domains: domains.unwrap_or_else(|| before.domains.clone()),
            creates_users: creates_users.unwrap_or(before.creates_users),
        }
    }
}

impl ProviderSettings {
    /// The same, in normal form.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what no provider can have.
    pub fn checked(self) -> Result<Self> {
        let Self { client_id, scopes, groups_claim, groups, domains, creates_users } = self;
        text("attributes.clientId", &client_id)?;
        for scope in &scopes {
            text("attributes.scopes", scope)?;
            if scope.contains(|c: char| c.is_whitespace()) {
                return Err(Error::invalid("attributes.scopes", "must be scopes without spaces in them"));
            }
        }
        if let Some(claim) = &groups_claim {
            text("attributes.groupsClaim", claim)?;
        }
        if scopes.len() > 50 || groups.len() > MAX_GROUPS || domains.len() > MAX_DOMAINS {
            let most = format!("must have at most {MAX_GROUPS} groups, {MAX_DOMAINS} domains and 50 scopes");
            return Err(Error::invalid("attributes", most));
        }
        for MappedGroup { claim, .. } in &groups {
            text("attributes.groups.claim", claim)?;
            if is_reserved(claim) {
                return Err(Error::invalid(
                    "attributes.groups.claim",
                    "must not begin with \"system:\", which Kubernetes reserves",
                ));
            }
        }
        if groups_claim.is_none() && !groups.is_empty() {
            return Err(Error::invalid("attributes.groupsClaim", "must be given to map groups"));
        }
        let domains: Vec<String> = domains.iter().map(|domain| domain.trim().to_ascii_lowercase()).collect();
        let is_domain = |domain: &String| {
            domain == "*"
                || (domain.contains('.')
                    && domain.len() <= 253
                    && domain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')))
        };
        if !domains.iter().all(is_domain) {
            return Err(Error::invalid(
                "attributes.domains",
                "must be domains such as example.com, or \"*\"",
            ));
        }
        Ok(Self { client_id, scopes, groups_claim, groups, domains, creates_users })
    }
}

fn text(field: &'static str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(Error::invalid(field, format!("must have between 1 and {LONGEST} printable bytes")));
    }
    Ok(())
}

/// Names to which Kubernetes gives power.
pub fn is_reserved(name: &str) -> bool {
    name.trim().to_ascii_lowercase().starts_with("system:")
}

/// Who a provider says it is: an address without user, query or fragment. Its text is compared as it stands. Plain HTTP is for a
/// provider on the console's own machine only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Issuer(String);

impl Issuer {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Issuer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let told = "must be https://HOST/PATH as the provider writes it, without user, query or fragment";
            Error::invalid("attributes.issuer", told)
        };
        if text.len() > LONGEST || text.contains(['?', '#', '@', ' ']) {
            return Err(wrong());
        }
        let address: Address = text.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let is_here = matches!(address.host(), "localhost" | "127.0.0.1" | "::1" | "[::1]");
        match address.scheme() {
            Scheme::Https => {}
            Scheme::Http if is_here => {}
            Scheme::Http | Scheme::Oci | Scheme::OciHttp | Scheme::Ssh | Scheme::File => return Err(wrong()),
        }
        Ok(Self(text.to_owned()))
    }
}

/// What a provider said of somebody, after its signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderClaims {
    /// Who it is, for ever.
    pub subject: String,
    /// Their address.
    pub email: Option<String>,
    /// The provider says that the address is theirs.
    pub email_verified: bool,
    /// For people.
    pub name: Option<String>,
    /// Their groups; absent when the provider did not say.
    pub groups: Option<Vec<String>>,
}

impl IdentityProvider {
    /// The address of somebody who signs in for the first time, if this provider may vouch for it: it finds or makes their account.
    ///
    /// # Errors
    /// [`Error::Forbidden`] with the reason.
    pub fn vouched(&self, claims: &ProviderClaims) -> Result<Email> {
        let refused = |why: String| Err(Error::forbidden(why));
        let Some(email) = &claims.email else {
            return refused(format!(
                "{} did not say your e-mail address; the scope \"email\" may be missing",
                self.name
            ));
        };
        if !claims.email_verified {
            return refused(format!("{} does not say that your e-mail address is verified", self.name));
        }
        // Letters that look like others, or become others in lower case, are somebody else's.
        let plain = Some(email).filter(|email| email.is_ascii());
        let Some(Ok(email)) = plain.map(|email| email.parse::<Email>()) else {
            return refused(format!("{} sent an e-mail address that cannot be used here", self.name));
        };
        let domain = email.as_str().rsplit_once('@').map_or("", |(_, domain)| domain);
        if !self.domains.iter().any(|allowed| allowed == "*" || allowed == domain) {
            return refused(format!(
                "{} may not sign in users of your e-mail address's domain; an administrator can allow it",
                self.name
            ));
        }
        Ok(email)
    }

    /// Our groups that somebody with these of the provider's groups is a member of.
    pub fn mapped(&self, claimed: &[String]) -> Vec<GroupId> {
        let claimed: std::collections::HashSet<&str> =
            claimed.iter().map(String::as_str).filter(|claim| !is_reserved(claim)).collect();
        let mapped = self.groups.iter().filter(|mapped| claimed.contains(mapped.claim.as_str()));
        let mut groups: Vec<GroupId> = mapped.map(|mapped| mapped.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

impl Keyed for IdentityProvider {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(domains: &[&str]) -> IdentityProvider {
        IdentityProvider {
            id: IdentityProviderId::new(),
            name: "acme".parse().unwrap(),
            issuer: "https://id.example.com".parse().unwrap(),
            client_id: "plural".into(),
            has_secret: true,
            scopes: vec![],
            groups_claim: Some("groups".into()),
            groups: vec![
                MappedGroup { claim: "ops".into(), group: GroupId::from_uuid(Uuid::from_u128(1)) },
                MappedGroup { claim: "dev".into(), group: GroupId::from_uuid(Uuid::from_u128(2)) },
                MappedGroup { claim: "admins".into(), group: GroupId::from_uuid(Uuid::from_u128(1)) },
            ],
            domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
            creates_users: true,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    fn claims(email: Option<&str>, email_verified: bool) -> ProviderClaims {
        let email = email.map(str::to_owned);
        ProviderClaims { subject: "1".into(), email, email_verified, name: None, groups: None }
    }

    #[test]
    fn only_a_verified_address_of_an_allowed_domain_counts() {
        let acme = provider(&["example.com"]);
        assert_eq!(acme.vouched(&claims(Some("Ada@Example.com"), true)).unwrap().as_str(), "ada@example.com");
        for (email, verified, why) in [
            (None, true, "did not say"),
            (Some("ada@example.com"), false, "is verified"),
            (Some("ada@evil.test"), true, "domain"),
            (Some("ada@sub.example.com"), true, "domain"),
            (Some("ada@example.com@evil.test"), true, "cannot be used|domain"),
            (Some("system:admin@example.com"), true, "cannot be used"),
            (Some(""), true, "cannot be used"),
        ] {
            let told = acme.vouched(&claims(email, verified)).unwrap_err().to_string();
            assert!(why.split('|').any(|why| told.contains(why)), "{email:?}: {told}");
        }
        assert!(provider(&[]).vouched(&claims(Some("ada@example.com"), true)).is_err());
        assert!(provider(&["*"]).vouched(&claims(Some("ada@example.com"), true)).is_ok());
    }

    #[test]
    fn groups_are_those_that_are_mapped() {
        let acme = provider(&[]);
        let groups = |claimed: &[&str]| {
            let claimed: Vec<String> = claimed.iter().map(|claim| (*claim).to_owned()).collect();
            acme.mapped(&claimed).iter().map(|id| id.uuid().as_u128()).collect::<Vec<_>>()
        };
        assert_eq!(groups(&["dev", "other", "system:masters"]), [2]);
        assert_eq!(groups(&["ops", "admins"]), [1]);
        assert_eq!(groups(&["OPS", ""]), [0_u128; 0]);
    }

    #[test]
    fn settings_are_held_to_their_limits() {
        let good = |change: fn(&mut ProviderSettings)| {
            let mut settings = ProviderChange::default().over(&provider(&["example.com"]));
            change(&mut settings);
            settings.checked()
        };
        assert!(good(|_| {}).is_ok());
        assert_eq!(good(|it| it.domains = vec![" Example.COM ".into()]).unwrap().domains, ["example.com"]);
        assert!(good(|it| it.domains = vec!["example".into()]).is_err());
        assert!(good(|it| it.domains = vec!["a@example.com".into()]).is_err());
        assert!(good(|it| it.client_id = String::new()).is_err());
        assert!(good(|it| it.scopes = vec!["a b".into()]).is_err());
        assert!(good(|it| it.groups_claim = None).is_err());
        assert!(good(|it| it.groups[0].claim = "System:masters".into()).is_err());
    }

    #[test]
    fn issuers() {
        for good in ["https://id.example.com", "https://id.example.com/realms/a/", "http://127.0.0.1:8080/x"]
        {
            assert_eq!(good.parse::<Issuer>().unwrap().as_str(), good);
        }
        for bad in [
            "http://id.example.com",
            "https://u:p@id.example.com",
            "https://id.example.com?x",
            "https://id.example.com/#x",
            "ftp://id.example.com",
            "id.example.com",
            "",
        ] {
            assert!(bad.parse::<Issuer>().is_err(), "{bad}");
        }
    }
}
