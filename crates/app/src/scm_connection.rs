//! Connections to git hosts. Their secrets go in and are never answered.

use std::sync::Arc;

use async_trait::async_trait;
use plural_core::data_key::KeyOwner;
use plural_core::destination::{Destination, Route};
use plural_core::ids::ScmConnectionId;
use plural_core::scm_connection::{
    NewScmConnection, ScmConnection, ScmConnectionChange, ScmHeld, ScmSpec, base_address,
};
use plural_core::specs::Change;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::access::{Audited, Authorized, Home, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::git_hosts::{Host, HostSecrets};
use crate::records::{Search, record};
use crate::repository::OVER_HTTP;
use crate::repository_reach::is_proxy;
use crate::seal::Sealed;

/// Longer texts are no keys and no tokens.
const LONGEST: usize = 32 << 10;

/// Which connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScmConnectionSelector {
    /// By id.
    Id(ScmConnectionId),
    /// By exact name.
    Name(String),
}

/// A changed connection.
#[derive(Debug)]
pub struct ScmConnectionUpdate {
    /// What it is from now on.
    pub after: ScmConnection,
    /// What becomes of its secrets, which are sealed together for `scm_connection:ID:secrets`.
    pub secrets: Change<Sealed>,
    /// The secrets that this was decided from: where others are stored by then, nothing is written.
    pub before: Option<Sealed>,
}

/// Secrets as a person gives them. What is `None` stays as it was; an empty text ends it.
#[derive(Debug, Clone, Default)]
pub struct NewScmSecrets {
    /// Token or password.
    pub token: Option<SecretString>,
    /// Private key of a GitHub App, PEM.
    pub app_key: Option<SecretString>,
    /// Private key that commits are signed with, as OpenSSH writes it.
    pub signing_key: Option<SecretString>,
    /// HTTP(S) or SOCKS proxy, with user information where it wants that.
    pub proxy: Option<SecretString>,
    /// Private key that signs in by ssh, as OpenSSH writes it. Another one has no passphrase where none is given with it.
    pub ssh_key: Option<SecretString>,
    /// Passphrase of that key.
    pub ssh_passphrase: Option<SecretString>,
}

noun!(ScmConnection, "scm connection", c => Some(c.id.uuid()), c.name.to_string());
record!(ScmConnection, ScmConnectionId, ScmConnectionSelector, Search);

/// Connections to git hosts.
#[async_trait]
pub trait ScmConnectionStore: Send + Sync + 'static {
    /// A new connection; [`Error::Conflict`] for a name that another one has. One that is the default takes that from the one before.
    async fn scm_connection_create(
        &self,
        by: Audited<'_, Home, Write>,
        connection: &ScmConnection,
        secrets: Option<&Sealed>,
    ) -> Result<()>;
    /// A changed connection; [`Error::Conflict`] where somebody else changed it since it was read.
    async fn scm_connection_update(
        &self,
        by: Audited<'_, ScmConnection, Write>,
        update: &ScmConnectionUpdate,
    ) -> Result<()>;
    /// Removes a connection with its secrets.
    async fn scm_connection_delete(&self, by: Audited<'_, ScmConnection, Write>) -> Result<()>;
    /// The secrets of a connection, sealed for `scm_connection:ID:secrets`.
    async fn scm_connection_sealed(
        &self,
        connection: &Authorized<ScmConnection, Write>,
    ) -> Result<Option<Sealed>>;
}

/// What is inside of sealed secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Kept {
    token: Option<String>,
    app_key: Option<String>,
    signing_key: Option<String>,
    proxy: Option<String>,
    // The release before this one reads what holds none of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_passphrase: Option<String>,
}

impl App {
    /// A new connection; needs write access to its project, or, for one of the whole installation, an administrator.
    pub async fn scm_connection_create(
        &self,
        ctx: &OpCtx,
        new: NewScmConnection,
        secrets: NewScmSecrets,
    ) -> Result<ScmConnection> {
        let NewScmConnection { name, kind, project_id, is_default, spec } = new;
        let guarded = self.store.global_service_home(ctx.actor(), project_id).await;
        let home: Authorized<Home, Write> =
            guarded.map_err(|error| error.named_in("attributes.projectId"))?.authorize(ctx)?;
        let kept = secrets.over(Kept::default())?;
        let spec = spec.over(ScmSpec::default()).checked(kind, kept.held())?;
        self.check_scm_way(&spec, &kept)?;
        let (id, at) = (ScmConnectionId::new(), ctx.now());
        let connection = ScmConnection {
            id,
            project_id,
            name,
            kind,
            is_default,
            spec,
            held: kept.held(),
            created_at: at,
            updated_at: at,
        };
        let sealed = if kept == Kept::default() {
            None
        } else {
            Some(self.scm_secrets_sealed(&connection, &kept).await?)
        };
        let by = home.audited_new(ctx, "scm_connection.create", "scm connection", id, &connection.name);
        self.store.scm_connection_create(by, &connection, sealed.as_ref()).await?;
        Ok(connection)
    }

    /// A changed connection. What is not given stays, but a token or key belongs to one destination: where the addresses or the proxy
    /// change, it has to be given again. Whoever may change a connection could otherwise have it sent to themselves. Where everything is so
    /// already, nothing is written.
    pub async fn scm_connection_update(
        &self,
        ctx: &OpCtx,
        id: ScmConnectionId,
        change: ScmConnectionChange,
        secrets: NewScmSecrets,
    ) -> Result<ScmConnection> {
        let by = ScmConnectionSelector::Id(id);
        let connection = self.authorized::<ScmConnection, Write>(ctx, &by).await?;
        let before = self.store.scm_connection_sealed(&connection).await?;
        let known = match &before {
            None => Kept::default(),
            Some(sealed) => self.scm_secrets_opened(id, sealed).await?,
        };
        let ScmConnectionChange { name, kind, project_id, is_default, spec } = change;
        if kind.is_some_and(|kind| kind != connection.kind) {
            return Err(Error::invalid("attributes.type", "cannot change: make another connection"));
        }
        if project_id.is_some() && project_id != connection.project_id {
            return Err(Error::invalid(
                "attributes.projectId",
                "cannot change: make another connection there",
            ));
        }
        let (has_token, has_app_key) = (secrets.token.is_some(), secrets.app_key.is_some());
        let has_ssh_key = secrets.ssh_key.is_some();
        let kept = secrets.over(known.clone())?;
        let spec = spec.over(connection.spec.clone()).checked(connection.kind, kept.held())?;
        self.check_scm_way(&spec, &kept)?;
        let changes = changes(&sent_to(&connection.spec, &known), &sent_to(&spec, &kept));
        for (field, stays) in [
            ("attributes.token", kept.token.is_some() && !has_token),
            ("attributes.github.privateKey", kept.app_key.is_some() && !has_app_key),
            ("attributes.sshPrivateKey", kept.ssh_key.is_some() && !has_ssh_key),
        ] {
            if stays && !changes.is_empty() {
                let what = changes.join(", ");
                return Err(Error::invalid(
                    field,
                    format!("must be given again, because the {what} changed: it would be sent elsewhere"),
                ));
            }
        }
        // The key of an App opens every organization that it is installed in, and it was given for one.
        if kept.app_key.is_some() && !has_app_key && spec.github != connection.spec.github {
            return Err(Error::invalid(
                "attributes.github.privateKey",
                "must be given again, because the App or its installation changed",
            ));
        }
        let after = ScmConnection {
            name: name.unwrap_or_else(|| connection.name.clone()),
            is_default: is_default.unwrap_or(connection.is_default),
            spec,
            held: kept.held(),
            updated_at: ctx.now(),
            ..(*connection).clone()
        };
        let same_secrets = kept == known;
        let as_before = ScmConnection { updated_at: connection.updated_at, ..after.clone() };
        if same_secrets && as_before == *connection {
            return Ok(connection.into_inner());
        }
        let secrets = if same_secrets {
            Change::Keep
        } else if kept == Kept::default() {
            Change::Clear
        } else {
            Change::Set(self.scm_secrets_sealed(&after, &kept).await?)
        };
        let by = connection.audited(ctx, "scm_connection.update");
        let update = ScmConnectionUpdate { after, secrets, before };
        self.store.scm_connection_update(by, &update).await?;
        Ok(update.after)
    }

    /// Removes a connection with its secrets.
    pub async fn scm_connection_delete(&self, ctx: &OpCtx, id: ScmConnectionId) -> Result<ScmConnection> {
        let by = ScmConnectionSelector::Id(id);
        let connection = self.authorized::<ScmConnection, Write>(ctx, &by).await?;
        self.store.scm_connection_delete(connection.audited(ctx, "scm_connection.delete")).await?;
        Ok(connection.into_inner())
    }

    /// The git host of a connection, for the console's own work: whoever asks for that need not see the connection. Its secrets are opened
    /// here, and go to the host alone.
    pub(crate) async fn scm_host(&self, id: ScmConnectionId) -> Result<(ScmConnection, Arc<dyn Host>)> {
        let by = ScmConnectionSelector::Id(id);
        let connection = self.authorized::<ScmConnection, Write>(&self.system_ctx(), &by).await?;
        let kept = match self.store.scm_connection_sealed(&connection).await? {
            Some(sealed) => self.scm_secrets_opened(id, &sealed).await?,
            None => Kept::default(),
        };
        self.check_scm_way(&connection.spec, &kept)?;
        let Kept { token, app_key, signing_key, proxy, ssh_key, ssh_passphrase } = kept;
        let secrets = HostSecrets {
            token: token.map(SecretString::from),
            app_key: app_key.map(SecretString::from),
            signing_key: signing_key.map(SecretString::from),
            proxy: proxy.map(SecretString::from),
            ssh_key: ssh_key.map(SecretString::from),
            ssh_passphrase: ssh_passphrase.map(SecretString::from),
        };
        let connection = connection.into_inner();
        let host = self.git_hosts.connect(&connection, secrets)?;
        Ok((connection, host))
    }

    /// Tokens are sent over http only where the operator allows it.
    fn check_scm_way(&self, spec: &ScmSpec, kept: &Kept) -> Result<()> {
        let is_plain =
            |url: Option<&str>| url.and_then(base_address).is_some_and(|address| address.is_plain_http());
        let has_secret = kept.token.is_some() || kept.app_key.is_some();
        if has_secret && !self.settings.credentials_over_http {
            for (field, url) in [
                ("attributes.baseUrl", spec.base_url.as_deref()),
                ("attributes.apiUrl", spec.api_url.as_deref()),
            ] {
                if is_plain(url) {
                    return Err(Error::invalid(field, OVER_HTTP));
                }
            }
        }
        Ok(())
    }

    async fn scm_secrets_sealed(&self, connection: &ScmConnection, kept: &Kept) -> Result<Sealed> {
        let json = serde_json::to_vec(kept)
            .map_err(|cause| Error::internal("writing the secrets of a connection", cause))?;
        let owner = KeyOwner::of(connection.project_id);
        self.sealer.seal(owner, &seal_context(connection.id), &json).await
    }

    async fn scm_secrets_opened(&self, id: ScmConnectionId, sealed: &Sealed) -> Result<Kept> {
        let json = self.sealer.open(&seal_context(id), sealed).await?;
        // The parser's own message could quote a secret.
        serde_json::from_slice(&json).map_err(|_| {
            Error::internal("reading the secrets of a connection", "they are not what was sealed")
        })
    }
}

impl Kept {
    fn held(&self) -> ScmHeld {
        let Self { token, app_key, signing_key, proxy, ssh_key, ssh_passphrase: _ } = self;
        ScmHeld {
            token: token.is_some(),
            app_key: app_key.is_some(),
            signing_key: signing_key.is_some(),
            proxy: proxy.is_some(),
            ssh_key: ssh_key.is_some(),
        }
    }
}

impl NewScmSecrets {
    /// What `kept` becomes.
    fn over(self, kept: Kept) -> Result<Kept> {
        let Self { token, app_key, signing_key, proxy, ssh_key, ssh_passphrase } = self;
        // A passphrase opens the key that it was given with.
        let passphrase = if ssh_key.is_some() { None } else { kept.ssh_passphrase };
        let text = |given: Option<SecretString>, kept: Option<String>| match given {
            None => kept,
            Some(given) => Some(given.expose_secret().trim().to_owned()).filter(|text| !text.is_empty()),
        };
        // Blanks at its ends may belong to a passphrase; the end of the line that it was written in does not.
        let phrase = match ssh_passphrase {
            None => passphrase,
            Some(given) => Some(of_line(given.expose_secret()).to_owned()).filter(|text| !text.is_empty()),
        };
        let after = Kept {
            token: text(token, kept.token),
            app_key: text(app_key, kept.app_key),
            signing_key: text(signing_key, kept.signing_key),
            proxy: text(proxy, kept.proxy),
            ssh_key: text(ssh_key, kept.ssh_key),
            ssh_passphrase: phrase,
        };
        let Kept { token, app_key, signing_key, proxy, ssh_key, ssh_passphrase } = &after;
        for (field, text) in [
            ("attributes.token", token),
            ("attributes.github.privateKey", app_key),
            ("attributes.signingPrivateKey", signing_key),
            ("attributes.proxy.url", proxy),
            ("attributes.sshPrivateKey", ssh_key),
            ("attributes.sshPassphrase", ssh_passphrase),
        ] {
            if text.as_ref().is_some_and(|text| text.len() > LONGEST) {
                return Err(Error::invalid(field, "is longer than 32 KiB"));
            }
        }
        // It becomes a header.
        if token.as_ref().is_some_and(|token| token.contains(|c: char| c.is_control() || c.is_whitespace())) {
            return Err(Error::invalid("attributes.token", "must be one word"));
        }
        if ssh_passphrase.as_ref().is_some_and(|text| text.contains(char::is_control)) {
            return Err(Error::invalid("attributes.sshPassphrase", "must be one line"));
        }
        if ssh_passphrase.is_some() && ssh_key.is_none() {
            return Err(Error::invalid("attributes.sshPassphrase", "must be given with a private key"));
        }
        for (field, key) in [
            ("attributes.github.privateKey", app_key),
            ("attributes.signingPrivateKey", signing_key),
            ("attributes.sshPrivateKey", ssh_key),
        ] {
            let is_key = |key: &String| key.starts_with("-----BEGIN ") && key.contains("PRIVATE KEY-----");
            if key.as_ref().is_some_and(|key| !is_key(key)) {
                return Err(Error::invalid(field, "must be a private key in PEM form"));
            }
        }
        let schemes = ["http", "https", "socks5", "socks5h"];
        if proxy.as_ref().is_some_and(|proxy| !is_proxy(proxy, &schemes)) {
            return Err(Error::invalid(
                "attributes.proxy.url",
                "must be an http, https, socks5 or socks5h address of a host and a port, without a path",
            ));
        }
        Ok(after)
    }
}

/// A text without the end of its line.
fn of_line(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Who receives what the connection signs in with: whoever clones, and the API.
fn sent_to(spec: &ScmSpec, kept: &Kept) -> [Destination; 2] {
    let route = Route { proxy: kept.proxy.as_deref(), ca: None, known_hosts: spec.known_hosts.as_deref() };
    [&spec.base_url, &spec.api_url].map(|url| {
        let text = url.as_deref().unwrap_or_default();
        Destination::of(base_address(text).as_ref(), text, route)
    })
}

/// The words for what differs.
fn changes(before: &[Destination; 2], after: &[Destination; 2]) -> Vec<&'static str> {
    let mut all: Vec<&str> =
        before.iter().zip(after).flat_map(|(before, after)| before.changes(after)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn seal_context(id: ScmConnectionId) -> String {
    format!("scm_connection:{id}:secrets")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n";

    fn refused(secrets: NewScmSecrets) -> String {
        match secrets.over(Kept::default()).map(drop).unwrap_err() {
            Error::Invalid { field, .. } => field.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_given_stays_and_an_empty_text_ends() {
        let given = NewScmSecrets {
            token: Some("abc\n".into()),
            signing_key: Some(KEY.into()),
            proxy: Some("http://ada:pw@proxy.example.com:3128".into()),
            ..NewScmSecrets::default()
        };
        let kept = given.over(Kept::default()).unwrap();
        assert_eq!(kept.token.as_deref(), Some("abc"));
        let held = ScmHeld { token: true, app_key: false, signing_key: true, proxy: true, ssh_key: false };
        assert_eq!(kept.held(), held);
        // The release before this one knows no other parts.
        let json = serde_json::to_value(&kept).unwrap();
        let mut parts: Vec<&String> = json.as_object().unwrap().keys().collect();
        parts.sort();
        assert_eq!(parts, ["app_key", "proxy", "signing_key", "token"]);
        assert!(NewScmSecrets::default().over(kept.clone()).unwrap() == kept);
        let ended = NewScmSecrets { proxy: Some("".into()), ..NewScmSecrets::default() };
        let kept = ended.over(kept).unwrap();
        assert_eq!(kept.held(), ScmHeld { proxy: false, ..held });
    }

    #[test]
    fn a_passphrase_stays_with_its_key() {
        let none = NewScmSecrets::default;
        let locked =
            NewScmSecrets { ssh_key: Some(KEY.into()), ssh_passphrase: Some("a b".into()), ..none() };
        let kept = locked.over(Kept::default()).unwrap();
        assert_eq!(kept.ssh_passphrase.as_deref(), Some("a b"));
        assert!(kept.held().ssh_key);
        assert!(none().over(kept.clone()).unwrap() == kept);
        for ssh_key in [KEY, ""] {
            let other = NewScmSecrets { ssh_key: Some(ssh_key.into()), ..none() };
            assert!(other.over(kept.clone()).unwrap().ssh_passphrase.is_none(), "{ssh_key:?}");
        }
        for (given, phrase) in
            [(" a b ", Some(" a b ")), (" a\n", Some(" a")), ("a \r\n", Some("a ")), ("", None), ("\n", None)]
        {
            let spaced =
                NewScmSecrets { ssh_key: Some(KEY.into()), ssh_passphrase: Some(given.into()), ..none() };
            assert_eq!(spaced.over(Kept::default()).unwrap().ssh_passphrase.as_deref(), phrase, "{given:?}");
        }
        let alone = NewScmSecrets { ssh_passphrase: Some("x".into()), ..none() };
        assert_eq!(refused(alone), "attributes.sshPassphrase");
    }

    #[test]
    fn secrets_have_their_form() {
        let none = NewScmSecrets::default;
        assert_eq!(refused(NewScmSecrets { token: Some("a b".into()), ..none() }), "attributes.token");
        assert_eq!(refused(NewScmSecrets { token: Some("a\r\nX: y".into()), ..none() }), "attributes.token");
        let long = "a".repeat(LONGEST + 1);
        assert_eq!(refused(NewScmSecrets { token: Some(long.into()), ..none() }), "attributes.token");
        let key = || Some(SecretString::from("secret"));
        assert_eq!(refused(NewScmSecrets { app_key: key(), ..none() }), "attributes.github.privateKey");
        assert_eq!(refused(NewScmSecrets { signing_key: key(), ..none() }), "attributes.signingPrivateKey");
        assert_eq!(refused(NewScmSecrets { ssh_key: key(), ..none() }), "attributes.sshPrivateKey");
        let two = NewScmSecrets { ssh_key: Some(KEY.into()), ssh_passphrase: Some("a\nb".into()), ..none() };
        assert_eq!(refused(two), "attributes.sshPassphrase");
        for bad in ["proxy:3128", "ftp://proxy", "http://a#@b", "http://proxy/x"] {
            let proxy = NewScmSecrets { proxy: Some(bad.into()), ..none() };
            assert_eq!(refused(proxy), "attributes.proxy.url", "{bad}");
        }
    }

    #[test]
    fn every_part_of_a_destination_counts() {
        let at = |base: &str, api: Option<&str>| ScmSpec {
            base_url: Some(base.into()),
            api_url: api.map(str::to_owned),
            ..ScmSpec::default()
        };
        let kept = |proxy: Option<&str>| Kept { proxy: proxy.map(str::to_owned), ..Kept::default() };
        let before = sent_to(&at("https://git.example.com", None), &kept(None));
        let same = sent_to(&at("https://git.example.com/scm", None), &kept(None));
        assert!(changes(&before, &same).is_empty());
        for (spec, proxy) in [
            (at("https://evil.example.com", None), None),
            (at("https://git.example.com", Some("https://evil.example.com")), None),
            (at("https://git.example.com", None), Some("http://evil.example.com:3128")),
            (ScmSpec::default(), None),
        ] {
            assert!(!changes(&before, &sent_to(&spec, &kept(proxy))).is_empty(), "{spec:?}");
        }
        let ssh = |base: &str, known_hosts: Option<&str>| {
            let known_hosts = known_hosts.map(str::to_owned);
            sent_to(&ScmSpec { known_hosts, ..at(base, None) }, &kept(None))
        };
        let before = ssh("ssh://git@git.example.com", None);
        assert!(changes(&before, &ssh("ssh://git@git.example.com/srv", None)).is_empty());
        for (base, known_hosts) in [
            ("ssh://root@git.example.com", None),
            ("ssh://git@git.example.com:2222", None),
            ("ssh://git@git.example.com", Some("git.example.com ssh-ed25519 AAAA")),
        ] {
            assert!(!changes(&before, &ssh(base, known_hosts)).is_empty(), "{base} {known_hosts:?}");
        }
    }
}
