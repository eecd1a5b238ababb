//! What an operator decides about a console. Flag and environment variable come from one definition.

use std::{net::SocketAddr, path::PathBuf};

use plural_api::Network;
use plural_core::cluster_tags::ProtectedTag;
use plural_registry::SignIn;
use secrecy::SecretString;

/// The administrator that a first start creates when nothing else is said.
const DEFAULT_ADMIN: &str = "admin@localhost";

/// How far the console goes to addresses that users give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Reach {
    /// The internet
    Public,
    /// And private networks
    Private,
    /// And this machine
    Local,
}

impl From<Reach> for plural_reach::Reach {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Public => Self::Public,
            Reach::Private => Self::Private,
            Reach::Local => Self::Local,
        }
    }
}

/// What is done with the SSH host key of a host that nobody pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SshHostKeys {
    /// The first key seen is kept, and another one refused later
    AcceptNew,
    /// Only keys that are known beforehand are accepted
    Strict,
}

impl From<SshHostKeys> for plural_git::NewHostKeys {
    fn from(keys: SshHostKeys) -> Self {
        match keys {
            SshHostKeys::AcceptNew => Self::Accept,
            SshHostKeys::Strict => Self::Refuse,
        }
    }
}

/// How this program does something in a process of its own.
#[derive(Debug, Clone)]
pub struct ChildProgram {
    /// This program's own file.
    pub program: PathBuf,
    /// Its argument with which it confines itself, and becomes another.
    pub sandbox: &'static str,
    /// Its argument with which it does that, in the folder that it is in.
    pub child: &'static str,
}

/// Settings of one console process.
#[derive(Debug, Clone, clap::Args)]
pub struct ConsoleConfig {
    /// Address to listen on for people, programs and agents alike
    #[arg(long, env = "PLURAL_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Folder for mirrors, artifacts, keys and, without --database-url, the database
    #[arg(long, env = "PLURAL_DATA_DIR", value_name = "DIR", default_value = "plural-data")]
    pub data_dir: PathBuf,

    /// Database: postgres://user@host/name or sqlite:///path/file.db [default: SQLite in the data folder]
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<SecretString>,

    /// Seconds that PostgreSQL may take for a statement: one that says nothing for so long counts as gone
    #[arg(long, env = "PLURAL_DATABASE_TIMEOUT_SECONDS", value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub database_timeout_seconds: u64,

    /// The address under which people, agents and forges reach this console
    #[arg(long, env = "PLURAL_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,

    /// The cluster that this console runs in, if it does: its handle or id, as clients see it in `Cluster.self`
    #[arg(long, env = "PLURAL_OWN_CLUSTER", value_name = "CLUSTER")]
    pub own_cluster: Option<String>,

    /// Certificate chain (PEM); with it the console serves TLS
    #[arg(long, env = "PLURAL_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of the certificate
    #[arg(long, env = "PLURAL_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Serve plain HTTP beyond this machine: for a console behind an ingress, a load balancer or a service mesh that
    /// terminates TLS. Without it, an address that is not a loopback one needs --tls-cert and --tls-key
    #[arg(long, env = "PLURAL_INSECURE_HTTP")]
    pub insecure_http: bool,

    /// Address to serve metrics on, at /metrics: plain HTTP without a credential, for Prometheus to scrape
    /// [default: not at all]
    #[arg(long, env = "PLURAL_METRICS_LISTEN", value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,

    /// Serve metrics on the console's own address, too, to whoever sends this as `Authorization: Bearer TOKEN`
    /// [default: not at all]
    #[arg(long, env = "PLURAL_METRICS_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub metrics_token: Option<SecretString>,

    /// Proxies in front of the console: addresses or networks, comma-separated. Their X-Forwarded-For tells who
    /// guesses passwords; without it everybody behind one counts as the same
    #[arg(long, env = "PLURAL_TRUSTED_PROXIES", value_name = "NETWORK", value_delimiter = ',')]
    pub trusted_proxies: Vec<Network>,

    /// Address to listen on for other replicas of this console: a request for a cluster whose agent is connected to
    /// another replica is passed on to that one. TLS with a certificate of its own, known through the database
    /// [default: not at all]
    #[arg(long, env = "PLURAL_REPLICA_LISTEN", value_name = "ADDRESS")]
    pub replica_listen: Option<SocketAddr>,

    /// Host, or host and port, under which other replicas reach this one [default: the address it listens on]
    #[arg(long, env = "PLURAL_REPLICA_ADDRESS", value_name = "HOST[:PORT]", requires = "replica_listen")]
    pub replica_address: Option<String>,

    /// Where artifacts are kept: s3://BUCKET[/PREFIX]; region, endpoint and credentials from the AWS_… variables
    /// [default: the data folder, which fits one replica]
    #[arg(long, env = "PLURAL_BLOB_STORE", hide_env_values = true, value_name = "URL")]
    pub blob_store: Option<String>,

    /// Address of the administrator that the first start creates
    #[arg(long, env = "PLURAL_ADMIN_EMAIL", value_name = "EMAIL", default_value = DEFAULT_ADMIN)]
    pub admin_email: String,

    /// Password of that administrator [default: a random one, printed once]
    #[arg(long, env = "PLURAL_ADMIN_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub admin_password: Option<SecretString>,

    /// File with the key for secrets at rest: 32 bytes in base64, older keys on further lines
    /// [default: encryption.key in the data folder, made at first start]
    #[arg(long, env = "PLURAL_ENCRYPTION_KEY_FILE", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,

    /// Where the key-encryption key for secrets at rest is: file:PATH, env:NAME, vault-transit://HOST/MOUNT/KEY, aws-kms:ARN,
    /// google-kms:projects/…/cryptoKeys/KEY, azure-key-vault://HOST/keys/KEY. Given several times, the first encrypts and all decrypt,
    /// the keys of --encryption-key-file last
    #[arg(
        long,
        env = "PLURAL_KEY_ENCRYPTION",
        hide_env_values = true,
        value_name = "PLACE",
        value_delimiter = ','
    )]
    pub key_encryption: Vec<String>,

    /// Where projects may keep secret values besides the database: vault-kv://HOST/MOUNT/PREFIX, kubernetes:NAMESPACE. Each kind once
    #[arg(
        long,
        env = "PLURAL_SECRET_BACKEND",
        hide_env_values = true,
        value_name = "PLACE",
        value_delimiter = ','
    )]
    pub secret_backend: Vec<String>,

    /// Secret that webhooks are signed with [default: webhook.secret in the data folder, made at first start]
    #[arg(long, env = "PLURAL_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    pub webhook_secret: Option<SecretString>,

    /// Days that lines of the audit log are kept; 0: for ever
    #[arg(long, env = "PLURAL_AUDIT_RETENTION_DAYS", value_name = "DAYS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub audit_retention_days: u32,

    /// Days that lines of requests to clusters are kept; 0: for ever
    #[arg(long, env = "PLURAL_REQUEST_AUDIT_RETENTION_DAYS", value_name = "DAYS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub request_audit_retention_days: u32,

    /// Versions of a stack's state that are kept, and as many rejected ones
    #[arg(long, env = "PLURAL_STACK_STATE_VERSIONS", value_name = "NUMBER", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(3..=1_000))]
    pub stack_state_versions: u32,

    /// Seconds between two signed checkpoints of the audit log, while it grows
    #[arg(long, env = "PLURAL_AUDIT_CHECKPOINT_SECONDS", value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub audit_checkpoint_seconds: u64,

    /// Where the audit log is sent as it grows, with checkpoints: file:PATH, https://… for a webhook, or otlp:https://…/v1/logs for a
    /// collector of OpenTelemetry; may be given several times. Of several replicas the one that leads sends
    #[arg(
        long,
        env = "PLURAL_AUDIT_STREAMS",
        hide_env_values = true,
        value_name = "URL",
        value_delimiter = ','
    )]
    pub audit_stream: Vec<String>,

    /// Secret that webhooks get the audit log signed with (HMAC-SHA-256)
    #[arg(long, env = "PLURAL_AUDIT_STREAM_SECRET", value_name = "SECRET", hide_env_values = true)]
    pub audit_stream_secret: Option<SecretString>,

    /// Header that collectors get with the audit log, such as authorization=Bearer…; may be given several times
    #[arg(
        long,
        env = "PLURAL_AUDIT_STREAM_HEADERS",
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub audit_stream_header: Vec<SecretString>,

    /// Days after which an agent replaces its deploy token by itself; 0: never
    #[arg(long, env = "PLURAL_DEPLOY_TOKEN_DAYS", value_name = "DAYS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(0..=3650))]
    pub deploy_token_days: u32,

    /// Start a new history: after the database was restored from a backup, so that every agent gets all of
    /// its desired state again instead of comparing positions of two histories
    #[arg(long, env = "PLURAL_RESTORED")]
    pub restored: bool,

    /// Let repositories be folders of this machine: whoever may create repositories can then read every git
    /// repository on it
    #[arg(long, env = "PLURAL_ALLOW_LOCAL_REPOSITORIES")]
    pub allow_local_repositories: bool,

    /// Tags of clusters that only administrators set: names, or how names begin followed by *, comma-separated. Tags by which
    /// global services choose clusters are protected in any case
    #[arg(long, env = "PLURAL_PROTECTED_TAGS", value_name = "TAG", value_delimiter = ',')]
    pub protected_tags: Vec<ProtectedTag>,

    /// Seconds between two fetches of a repository
    #[arg(long, env = "PLURAL_POLL_SECONDS", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub poll_seconds: u64,

    /// Seconds between two looks at what a chart's range of versions leads to
    #[arg(long, env = "PLURAL_CHART_POLL_SECONDS", value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub chart_poll_seconds: u64,

    /// How far the console goes to addresses that users give, of git repositories, chart repositories, registries and
    /// their proxies: whoever may name one chooses where it connects to. Link-local and metadata addresses are refused
    /// in any case [default: private]
    #[arg(long, env = "PLURAL_REACH", value_name = "REACH")]
    pub reach: Option<Reach>,

    /// The earlier name of --reach
    #[arg(long, env = "PLURAL_REGISTRY_REACH", value_name = "REACH", hide = true)]
    pub registry_reach: Option<Reach>,

    /// Send passwords and tokens of git and chart repositories over http too, where everybody on the way can read them
    #[arg(long, env = "PLURAL_ALLOW_CREDENTIALS_OVER_HTTP")]
    pub allow_credentials_over_http: bool,

    /// What is done with the SSH host key of a repository that does not pin it. The keys of github.com, gitlab.com,
    /// bitbucket.org and Azure DevOps are known in any case
    #[arg(long, env = "PLURAL_SSH_HOST_KEYS", value_name = "POLICY", default_value = "accept-new")]
    pub ssh_host_keys: SshHostKeys,

    /// A registry's sign-in service that is another host, and gets the registry's credentials; comma-separated. Those of
    /// Docker Hub and gitlab.com are known
    #[arg(long, env = "PLURAL_REGISTRY_SIGN_IN", value_name = "REGISTRY=HOST", value_delimiter = ',')]
    pub registry_sign_in: Vec<SignIn>,

    /// Seconds that a fetch of a repository may take; the first one may take fifteen times as long
    #[arg(long, env = "PLURAL_GIT_TIMEOUT_SECONDS", value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub git_timeout_seconds: u64,

    /// MiB that the mirror of a repository may take on disk
    #[arg(long, env = "PLURAL_GIT_MIRROR_MIB", value_name = "MIB", default_value_t = 5_120,
          value_parser = clap::value_parser!(u64).range(1..=16_777_216))]
    pub git_mirror_mib: u64,

    /// MiB that the mirrors of all repositories may take on disk together
    #[arg(long, env = "PLURAL_GIT_MIRRORS_MIB", value_name = "MIB", default_value_t = 102_400,
          value_parser = clap::value_parser!(u64).range(1..=1_073_741_824))]
    pub git_mirrors_mib: u64,

    /// MiB of memory that each process of git may use
    #[arg(long, env = "PLURAL_GIT_MEMORY_MIB", value_name = "MIB", default_value_t = 1_024,
          value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub git_memory_mib: u64,

    /// Do not check what is fetched for objects that no git would write (fsck): for repositories that are refused for their
    /// age
    #[arg(long, env = "PLURAL_GIT_NO_FSCK")]
    pub git_no_fsck: bool,

    /// Git repositories that a project may have
    #[arg(long, env = "PLURAL_MAX_REPOSITORIES", value_name = "COUNT", default_value_t = 1_000)]
    pub max_repositories: u64,

    /// Services that the clusters of a project may have
    #[arg(long, env = "PLURAL_MAX_SERVICES", value_name = "COUNT", default_value_t = 10_000)]
    pub max_services: u64,

    /// Access tokens that a user may have, sessions not counted
    #[arg(long, env = "PLURAL_MAX_TOKENS", value_name = "COUNT", default_value_t = 100)]
    pub max_tokens: u64,

    /// MiB of memory that all previews may use together; one may use half of it
    /// [default: a quarter of the memory limit, or an eighth of the machine's memory]
    #[arg(long, env = "PLURAL_PREVIEW_MEMORY_MIB", value_name = "MIB",
          value_parser = clap::value_parser!(u64).range(16..=1_048_576))]
    pub preview_memory_mib: Option<u64>,

    /// Seconds that a preview may take
    #[arg(long, env = "PLURAL_PREVIEW_SECONDS", value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub preview_seconds: u64,

    /// Seconds between two signs of life on a silent line to an agent: fewer than anything in between lets a connection
    /// be silent
    #[arg(long, env = "PLURAL_KEEP_ALIVE_SECONDS", value_name = "SECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub keep_alive_seconds: u64,

    /// Seconds that open requests and streams get to end when the console stops
    #[arg(long, env = "PLURAL_DRAIN_SECONDS", value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(0..=600))]
    pub drain_seconds: u64,

    /// A second address that serves the same with TLS, for kubectl: it sends credentials over TLS only.
    #[arg(skip)]
    pub kubernetes: Option<KubernetesListener>,

    /// How rules are evaluated in a process of their own; in this one where nobody says it, as in tests.
    #[arg(skip)]
    pub rules_program: Option<ChildProgram>,

    /// How automations run in a process of their own; none runs where nobody says it.
    #[arg(skip)]
    pub scaffold_program: Option<ChildProgram>,
}

/// An address with TLS, beside that of [`ConsoleConfig::listen`].
#[derive(Debug, Clone)]
pub struct KubernetesListener {
    /// Where it listens.
    pub listen: SocketAddr,
    /// File of the certificate chain (PEM).
    pub certificate: PathBuf,
    /// File of its key (PEM).
    pub key: PathBuf,
    /// The authority that signed it (PEM), which `Cluster.kasCaCertificate` tells.
    pub authority: String,
}

impl ConsoleConfig {
    /// The defaults, with everything in one folder and a port that the system picks: for demos and tests.
    pub fn local(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: data_dir.into(),
            database_url: None,
            database_timeout_seconds: 30,
            public_url: None,
            own_cluster: None,
            tls_cert: None,
            tls_key: None,
            insecure_http: false,
            metrics_listen: None,
            metrics_token: None,
            trusted_proxies: Vec::new(),
            replica_listen: None,
            replica_address: None,
            blob_store: None,
            admin_email: DEFAULT_ADMIN.to_owned(),
            admin_password: None,
            encryption_key_file: None,
            key_encryption: Vec::new(),
            secret_backend: Vec::new(),
            webhook_secret: None,
            audit_retention_days: 0,
            request_audit_retention_days: 30,
            stack_state_versions: 100,
            audit_checkpoint_seconds: 300,
            audit_stream: Vec::new(),
            audit_stream_secret: None,
            audit_stream_header: Vec::new(),
            deploy_token_days: 30,
            restored: false,
            allow_local_repositories: false,
            protected_tags: Vec::new(),
            poll_seconds: 60,
            chart_poll_seconds: 300,
            reach: None,
            registry_reach: None,
            allow_credentials_over_http: false,
            ssh_host_keys: SshHostKeys::AcceptNew,
            registry_sign_in: Vec::new(),
            git_timeout_seconds: 120,
            git_mirror_mib: 5_120,
            git_mirrors_mib: 102_400,
            git_memory_mib: 1_024,
            git_no_fsck: false,
            max_repositories: 1_000,
            max_services: 10_000,
            max_tokens: 100,
            preview_memory_mib: None,
            preview_seconds: 10,
            keep_alive_seconds: 20,
            drain_seconds: 10,
            kubernetes: None,
            rules_program: None,
            scaffold_program: None,
        }
    }
}
