//! What is given to the program: each secret option in a form that is taken, and in those that are not.

/// One call of the program. In its texts CANARY stands for a canary, FILE for the path of its file, and in what is piped in PASSWORD for
/// the password of whoever calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) command: &'static str,
    /// What it is about, as `options.txt` names it; a variable in other cases.
    pub(super) option: &'static str,
    pub(super) rest: &'static str,
    pub(super) file: &'static str,
    pub(super) piped: &'static str,
    pub(super) variables: &'static [(&'static str, &'static str)],
}

const fn case(command: &'static str, option: &'static str, rest: &'static str) -> Case {
    Case { command, option, rest, file: "", piped: "", variables: &[] }
}

impl Case {
    const fn file(self, file: &'static str) -> Self {
        Self { file, ..self }
    }

    const fn piped(self, piped: &'static str) -> Self {
        Self { piped, ..self }
    }

    const fn variables(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Self { variables, ..self }
    }
}

const PAIRS: &str = "password: CANARY\nport: 5432\n";
const BROKEN: &str = "password: [CANARY: {\n  CANARY\n";
const A_LIST: &str = "- CANARY\n- {CANARY: CANARY}\n";
const NESTED: &str = "password: {CANARY: [CANARY]}\n";
const CHART_VALUES: &str = "auth: {password: CANARY}\n";
const RENDERING: &str = "helm: {values: \"auth: {password: CANARY}\"}\n";
const NO_RENDERING: &str = "helm: CANARY\nrenderers: CANARY\nnothing: CANARY\n";
const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nCANARY\n-----END OPENSSH PRIVATE KEY-----\n";
const DOCUMENTS: &str = "apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepository
metadata: {name: deploy}
spec: {url: \"https://git.invalid/documents.git\"}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {name: documented}
spec:
  cluster: blue
  namespace: shop
  repositoryRef: {name: deploy}
  git: {ref: main, folder: web}
  configurationRef: {name: documented-secrets}
---
apiVersion: v1
kind: Secret
metadata: {name: documented-secrets}
stringData: {PASSWORD: CANARY}
";
const NO_DOCUMENTS: &str = "apiVersion: v1
kind: Secret
metadata: {name: wrong}
stringData: {PASSWORD: [CANARY], OTHER: {CANARY: CANARY}}
data: {THIRD: \"CANARY is no base64\"}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {name: wrong}
spec: {cluster: blue, configuration: {a: [CANARY]}, git: CANARY, configurationRef: {name: wrong}}
";
const STACK: &str =
    "environment: [{name: TOKEN, value: CANARY, secret: true}]\nfiles: [{path: key.pem, content: CANARY}]\n";
const NO_STACK: &str = "environment: [{name: TOKEN, value: [CANARY]}]\nfiles: CANARY\nnothing: CANARY\n";
const GLOBAL: &str = "template:
  name: everywhere
  namespace: shop
  git: {ref: main, folder: web}
  configuration: [{name: password, value: CANARY}]
  helm: {values: \"password: CANARY\"}
";
const NO_GLOBAL: &str = "template: {configuration: CANARY, helm: [CANARY]}\nsomething: CANARY\n";
const NAMESPACE: &str =
    "service:\n  git: {ref: main, folder: web}\n  configuration: [{name: password, value: CANARY}]\n";

macro_rules! of_a_service {
    ($options:literal) => {
        concat!($options, " --repository https://git.invalid/app.git --ref main --folder web")
    };
}

/// What persons call. What is proven by a password comes first with the right one: a wrong one keeps its account out for a while.
pub(super) const CASES: &[Case] = &[
    case("cd users create", "--stdin", "grace@example.com --name Grace --stdin")
        .piped("PASSWORD\nCANARY of Grace\n"),
    case("cd providers create", "--stdin", "acme --issuer https://id.invalid --client-id plural --stdin")
        .piped("PASSWORD\nCANARY\n"),
    case("cd providers update", "--stdin", "acme --new-secret --stdin").piped("PASSWORD\nCANARY\n"),
    // Values of templates.
    case("cd services create", "--conf", of_a_service!("blue/one --conf password=CANARY")),
    case("cd services create", "--conf-file", of_a_service!("blue/two --conf-file FILE")).file(PAIRS),
    case("cd services create", "--conf-file", of_a_service!("blue/three --conf-file -")).piped(PAIRS),
    case("cd services create", "--values", of_a_service!("blue/four --values FILE")).file(CHART_VALUES),
    case("cd services create", "--rendering", of_a_service!("blue/five --rendering FILE")).file(RENDERING),
    case(
        "cd services create",
        "--chart-url",
        "blue/six --chart-url https://ada:CANARY@charts.invalid --chart web --chart-version 1.0.0",
    ),
    case("cd services create", "--conf", of_a_service!("blue/bad --conf CANARY")),
    case("cd services create", "--conf-file", of_a_service!("blue/bad --conf-file FILE")).file(BROKEN),
    case("cd services create", "--conf-file", of_a_service!("blue/bad --conf-file FILE")).file(A_LIST),
    case("cd services create", "--conf-file", of_a_service!("blue/bad --conf-file FILE")).file(NESTED),
    case("cd services create", "--values", of_a_service!("blue/bad --values FILE")).file(BROKEN),
    case("cd services create", "--rendering", of_a_service!("blue/bad --rendering FILE")).file(NO_RENDERING),
    case("cd services update", "--conf", "blue/web --conf password=CANARY"),
    case("cd services update", "--conf-file", "blue/web --conf-file FILE --replace-conf").file(PAIRS),
    case("cd services update", "--values", "blue/web --values -").piped(CHART_VALUES),
    case("cd services update", "--rendering", "blue/web --rendering FILE").file(RENDERING),
    case(
        "cd services update",
        "--chart-url",
        "blue/web --chart-url oci://ada:CANARY@charts.invalid/web --chart-version 1.0.0",
    ),
    case("cd services update", "--conf", "blue/web --conf CANARY"),
    case("cd services update", "--conf", "blue/web --conf =CANARY"),
    case("cd services update", "--conf", "blue/nothing --conf a=CANARY"),
    case("cd services update", "--conf-file", "blue/web --conf-file -").piped(BROKEN),
    case("cd services update", "--values", "blue/web --values FILE").file(A_LIST),
    case("cd services update", "--rendering", "blue/web --rendering FILE").file(NO_RENDERING),
    case("cd services clone", "--conf", "blue/web blue/copy --conf password=CANARY"),
    case("cd services clone", "--conf", "blue/web blue/copy --conf CANARY"),
    case("cd contexts save", "--secrets-file", "shared --secrets-file FILE").file(PAIRS),
    case("cd contexts save", "--secrets-file", "shared --secrets-file FILE").file(BROKEN),
    case("cd contexts save", "--secrets-file", "shared --secrets-file FILE").file(NESTED),
    case("cd global-services create", "--file", "everywhere --file FILE").file(GLOBAL),
    case("cd global-services create", "--file", "everywhere --file FILE").file(NO_GLOBAL),
    case("cd global-services create", "--file", "everywhere --file -").piped(BROKEN),
    case("cd global-services update", "--file", "everywhere --file FILE").file(GLOBAL),
    case("cd global-services update", "--file", "everywhere --file FILE").file(NO_GLOBAL),
    case("cd managed-namespaces create", "--file", "team --file FILE").file(NAMESPACE),
    case("cd managed-namespaces create", "--file", "team --file FILE").file(NO_GLOBAL),
    case("cd managed-namespaces update", "--file", "team --file FILE").file(NAMESPACE),
    case("cd managed-namespaces update", "--file", "team --file FILE").file(BROKEN),
    // Stacks.
    case("cd stacks create", "--secret-env", "infra --secret-env TOKEN=@FILE").file("CANARY\n"),
    case("cd stacks create", "--secret-env", "infra-2 --secret-env TOKEN").piped("CANARY\n"),
    case("cd stacks create", "--secret-env", "infra-3 --secret-env TOKEN=CANARY"),
    case("cd stacks create", "--file-content", "infra-4 --file-content key.pem=@FILE").file(KEY),
    case("cd stacks create", "--settings", "infra-5 --settings FILE").file(STACK),
    case("cd stacks create", "--settings", "infra-6 --settings FILE").file(NO_STACK),
    case("cd stacks create", "--settings", "infra-7 --settings -").piped(BROKEN),
    case("cd stacks commands run", "--secret-answer", "grow --secret-answer TOKEN=@FILE").file("CANARY\n"),
    case("cd stacks commands run", "--secret-answer", "grow --secret-answer TOKEN=CANARY"),
    case("cd stacks update", "--secret-env", "infra --secret-env TOKEN=@FILE").file("CANARY\n"),
    case("cd stacks update", "--secret-env", "infra --secret-env =@CANARY"),
    case("cd stacks update", "--file-content", "infra --file-content key.pem=@FILE").file(KEY),
    case("cd stacks update", "--settings", "infra --settings FILE").file(STACK),
    case("cd stacks update", "--settings", "infra --settings FILE").file(NO_STACK),
    // Pull requests.
    case(
        "cd stacks plan",
        "--pull-request",
        "infra --pull-request https://ada:CANARY@git.invalid/acme/shop/pull/1",
    ),
    case(
        "cd stacks release",
        "--pull-request",
        "infra --pull-request https://ada:CANARY@git.invalid/acme/shop/pull/1 --commit 4f2c1e9a7b21d3c5e6f708192a3b4c5d6e7f8091 --yes",
    ),
    case("pr create", "--secret-set", "web --secret-set TOKEN=@FILE").file("CANARY\n"),
    case("pr create", "--secret-set", "web --secret-set TOKEN=CANARY"),
    case("pr create", "--secret", "web --secret TOKEN=@FILE").file("CANARY\n"),
    case("pr create", "--secret", "web --secret TOKEN=CANARY"),
    case("pr preview", "--secret-set", "web --secret-set TOKEN=@FILE").file("CANARY\n"),
    case("pr preview", "--secret-set", "web --secret-set TOKEN=CANARY"),
    case(
        "pr instances diff",
        "--secret-set",
        "0190b8a2-7c11-7def-8000-0123456789ab --secret-set TOKEN=@FILE",
    )
    .file("CANARY\n"),
    case(
        "pr instances diff",
        "--secret-set",
        "0190b8a2-7c11-7def-8000-0123456789ab --secret-set TOKEN=CANARY",
    ),
    case("pr upgrade", "--secret", "0190b8a2-7c11-7def-8000-0123456789ab --secret TOKEN=@FILE")
        .file("CANARY\n"),
    case("pr upgrade", "--secret", "0190b8a2-7c11-7def-8000-0123456789ab --secret TOKEN=CANARY"),
    case("pr uninstall", "--secret-set", "0190b8a2-7c11-7def-8000-0123456789ab --secret-set TOKEN=@FILE")
        .file("CANARY\n"),
    case("pr uninstall", "--secret-set", "0190b8a2-7c11-7def-8000-0123456789ab --secret-set TOKEN=CANARY"),
    case("pr upgrade", "--secret-set", "0190b8a2-7c11-7def-8000-0123456789ab --secret-set TOKEN=@FILE")
        .file("CANARY\n"),
    case("pr upgrade", "--secret-set", "0190b8a2-7c11-7def-8000-0123456789ab --secret-set TOKEN=CANARY"),
    // Documents.
    case("apply", "--filename", "--filename FILE").file(DOCUMENTS),
    case("diff", "--filename", "--filename FILE").file(DOCUMENTS),
    case("apply", "--filename", "--filename FILE").file(NO_DOCUMENTS),
    case("apply", "--filename", "--filename FILE").file(BROKEN),
    case("diff", "--filename", "--filename -").piped(NO_DOCUMENTS),
    case("delete", "--filename", "--filename FILE --yes").file(NO_DOCUMENTS),
    case("delete", "--filename", "--filename FILE --yes").file(DOCUMENTS),
    // Repositories and charts.
    case(
        "cd repositories create",
        "--password-stdin",
        "https://git.invalid/a.git --username ada --password-stdin",
    )
    .piped("CANARY\n"),
    case("cd repositories create", "PLURAL_GIT_PASSWORD", "https://git.invalid/b.git --username ada")
        .variables(&[("PLURAL_GIT_PASSWORD", "CANARY")]),
    case("cd repositories create", "PLURAL_GIT_PROXY", "https://git.invalid/c.git")
        .variables(&[("PLURAL_GIT_PROXY", "http://ada:CANARY@127.0.0.1:1")]),
    case("cd repositories create", "PLURAL_GIT_PROXY", "https://git.invalid/d.git")
        .variables(&[("PLURAL_GIT_PROXY", "CANARY")]),
    case("cd repositories create", "--private-key", "git@git.invalid:e.git --private-key FILE")
        .file(KEY)
        .variables(&[("PLURAL_GIT_PASSPHRASE", "CANARY")]),
    case("cd repositories create", "--private-key", "git@git.invalid:f.git --private-key FILE")
        .file("CANARY"),
    case("cd repositories create", "REPOSITORY", "https://ada:CANARY@git.invalid/g.git"),
    case("cd repositories create", "--url", "--url https://ada:CANARY@git.invalid/h.git"),
    case(
        "cd repositories create",
        "--console-url",
        "https://git.invalid/i.git --console-url https://ada:CANARY@console.invalid",
    ),
    case(
        "cd repositories create",
        "--password-stdin",
        "https://git.invalid/j.git --username ada --password-stdin=CANARY",
    ),
    case(
        "cd repositories update",
        "--password-stdin",
        "https://git.invalid/app.git --username ada --password-stdin",
    )
    .piped("CANARY\n"),
    case("cd repositories update", "--private-key", "https://git.invalid/app.git --private-key FILE")
        .file(KEY),
    case(
        "cd repositories update",
        "--to",
        "https://git.invalid/app.git --to https://ada:CANARY@git.invalid/k.git",
    ),
    case(
        "cd repositories update",
        "--to",
        "https://git.invalid/app.git --to https://ada:CANARY@[broken/k.git",
    ),
    case(
        "cd helm-repositories set",
        "--password-stdin",
        "https://charts.invalid/a --username ada --password-stdin",
    )
    .piped("CANARY\n"),
    case(
        "cd helm-repositories set",
        "--password-stdin",
        "https://charts.invalid/b --bearer --password-stdin",
    )
    .piped("CANARY\n"),
    case("cd helm-repositories set", "PLURAL_HELM_PASSWORD", "https://charts.invalid/c --bearer")
        .variables(&[("PLURAL_HELM_PASSWORD", "CANARY")]),
    case("cd helm-repositories set", "URL", "https://ada:CANARY@charts.invalid/d"),
    case(
        "cd helm-repositories set",
        "--password-stdin",
        "https://charts.invalid/e --bearer=CANARY --password-stdin",
    )
    .piped("CANARY\n"),
    // Connections to git hosts.
    case("cd scm-connections create", "--token-file", "scm-1 --type github --token-file FILE")
        .file("CANARY\n"),
    case("cd scm-connections create", "--token-file", "scm-2 --type github --token-file -").piped("CANARY\n"),
    case("cd scm-connections create", "--token-file", "scm-3 --type github --token-file FILE")
        .file("CANARY CANARY\n"),
    case(
        "cd scm-connections create",
        "--app-key-file",
        "scm-4 --type github --app-id 1 --installation-id 2 --app-key-file FILE",
    )
    .file(KEY),
    case(
        "cd scm-connections create",
        "--app-key-file",
        "scm-5 --type github --app-id 1 --installation-id 2 --app-key-file FILE",
    )
    .file("CANARY"),
    case(
        "cd scm-connections create",
        "--signing-key-file",
        "scm-6 --type plain --base-url https://git.invalid --signing-key-file FILE",
    )
    .file(KEY),
    case(
        "cd scm-connections create",
        "--signing-key-file",
        "scm-7 --type plain --base-url https://git.invalid --signing-key-file -",
    )
    .piped("CANARY\n"),
    case(
        "cd scm-connections create",
        "--proxy-file",
        "scm-8 --type plain --base-url https://git.invalid --proxy-file FILE",
    )
    .file("http://ada:CANARY@proxy.invalid:3128\n"),
    case(
        "cd scm-connections create",
        "--proxy-file",
        "scm-9 --type plain --base-url https://git.invalid --proxy-file FILE",
    )
    .file("ftp://ada:CANARY@proxy.invalid\n"),
    case(
        "cd scm-connections create",
        "--base-url",
        "scm-10 --type plain --base-url https://ada:CANARY@git.invalid",
    ),
    case(
        "cd scm-connections create",
        "--api-url",
        "scm-11 --type gitea --api-url https://ada:CANARY@git.invalid/api",
    ),
    case(
        "cd scm-connections create",
        "--ssh-key-file",
        "scm-12 --type plain --base-url ssh://git@git.invalid --ssh-key-file FILE",
    )
    .file(KEY),
    case(
        "cd scm-connections create",
        "--ssh-key-file",
        "scm-13 --type plain --base-url ssh://git@git.invalid --ssh-key-file -",
    )
    .piped("CANARY\n"),
    case(
        "cd scm-connections create",
        "--ssh-passphrase-file",
        "scm-14 --type plain --base-url ssh://git@git.invalid --ssh-key-file - --ssh-passphrase-file FILE",
    )
    .file("CANARY\n")
    .piped(KEY),
    case("cd scm-connections update", "--ssh-key-file", "scm-12 --ssh-key-file FILE").file(KEY),
    case(
        "cd scm-connections update",
        "--ssh-passphrase-file",
        "scm-12 --ssh-key-file FILE --ssh-passphrase-file -",
    )
    .file(KEY)
    .piped("CANARY\nCANARY\n"),
    case("cd scm-connections update", "--token-file", "scm-1 --token-file FILE").file("CANARY\n"),
    case(
        "cd scm-connections update",
        "--app-key-file",
        "scm-4 --app-id 1 --installation-id 2 --app-key-file FILE",
    )
    .file(KEY),
    case("cd scm-connections update", "--signing-key-file", "scm-1 --signing-key-file FILE").file(KEY),
    case("cd scm-connections update", "--proxy-file", "scm-1 --proxy-file FILE")
        .file("http://ada:CANARY@proxy.invalid:3128\n"),
    case("cd scm-connections update", "--base-url", "scm-1 --base-url https://ada:CANARY@git.invalid"),
    case("cd scm-connections update", "--api-url", "scm-1 --api-url https://ada:CANARY@[broken"),
    case("cd scm-webhooks create", "--secret-file", "--connection scm-1 --owner acme --secret-file FILE")
        .file("CANARY-of-a-webhook\n"),
    case("cd scm-webhooks create", "--secret-file", "--connection scm-1 --owner other --secret-file -")
        .piped("CANARY CANARY\nCANARY\n"),
    case(
        "pr governance create",
        "--secret-file",
        "board --connection scm-1 --webhook-url https://board.invalid --secret-file FILE",
    )
    .file("CANARY-of-a-governance\n"),
    case(
        "pr governance create",
        "--webhook-url",
        "other --connection scm-1 --webhook-url https://ada:CANARY@board.invalid",
    ),
    case("pr governance update", "--secret-file", "board --secret-file -").piped("CANARY CANARY\nCANARY\n"),
    case("pr governance update", "--webhook-url", "board --webhook-url https://ada:CANARY@[broken"),
    // The way to the console, and who comes.
    case("whoami", "--url", "--url https://ada:CANARY@console.invalid"),
    case("whoami", "--url", "--url ftp://ada:CANARY@console.invalid"),
    case("cd clusters list", "--url", "--url https://ada:CANARY@console.invalid"),
    case("whoami", "HTTPS_PROXY", "--url https://console.invalid")
        .variables(&[("HTTPS_PROXY", "http://ada:CANARY@127.0.0.1:1")]),
    case("whoami", "HTTPS_PROXY", "--url https://console.invalid")
        .variables(&[("HTTPS_PROXY", "socks9://ada:CANARY@127.0.0.1:1")]),
    case("whoami", "PLURAL_CONSOLE_TOKEN", "").variables(&[("PLURAL_CONSOLE_TOKEN", "CANARY")]),
    case("whoami", "PLURAL_CONSOLE_TOKEN", "")
        .variables(&[("PLURAL_CONSOLE_TOKEN", "console-CANARY\nCANARY")]),
    case("login", "--token-stdin", "--token-stdin").piped("CANARY\n"),
    case("login", "--token-stdin", "--token-stdin").piped("console-CANARY CANARY é\n"),
    case("login", "--id-token-stdin", "--id-token-stdin").piped("CANARY.e30.CANARY\n"),
    case("login", "--id-token-stdin", "--id-token-stdin --service-account deployer").piped("CANARY\n"),
    case("login", "--password-stdin", "--email victim@example.com --password-stdin").piped("CANARY\n"),
    case("login", "--code", "--email victim@example.com --code CANARY --password-stdin").piped("CANARY\n"),
    case("login", "--code", "--code CANARY"),
    case("login", "--password-stdin", "--email victim@example.com --password-stdin=CANARY"),
    case("login", "--url", "--url https://ada:CANARY@console.invalid --token-stdin").piped("CANARY\n"),
    case("cd login", "--token-stdin", "--token-stdin").piped("CANARY\n"),
    case("cd login", "--id-token-stdin", "--id-token-stdin").piped("CANARY\n"),
    case("cd login", "--password-stdin", "--email victim@example.com --password-stdin").piped("CANARY\n"),
    case("cd login", "--code", "--email victim@example.com --code CANARY --password-stdin").piped("CANARY\n"),
    case("cd login", "--token", "--token CANARY"),
    case("cd login", "--token", "--token=CANARY"),
    case("cd clusters bootstrap", "--token-file", "red --image example.com/plural:1 --token-file FILE")
        .file("registration-CANARY\n"),
    case("cd clusters bootstrap", "--token-file", "red --image example.com/plural:1 --token-file -")
        .piped("CANARY\nCANARY\n"),
    case("cd clusters reinstall", "--token-file", "blue --image example.com/plural:1 --token-file FILE")
        .file("CANARY"),
    case("cd bootstrap", "--token-file", "red --image example.com/plural:1 --token-file FILE").file("CANARY"),
    // Passwords that are wrong.
    case("second-factor disable", "--password-stdin", "--yes --password-stdin").piped("CANARY\n"),
    case("second-factor disable", "--code", "--yes --code CANARY --password-stdin").piped("CANARY\n"),
    case("tokens create", "--password-stdin", "--password-stdin").piped("CANARY\n"),
    case("tokens create", "--password-stdin", "--password-stdin=CANARY"),
    case("password", "--stdin", "--stdin").piped("CANARY\nCANARY is longer\n"),
    case("password", "--stdin", "--stdin=CANARY"),
    case("password", "--stdin", "--stdin CANARY"),
    case("cd users invite", "--password-stdin", "new@example.com --password-stdin").piped("CANARY\n"),
    case("cd users reset-password", "--password-stdin", "victim@example.com --password-stdin")
        .piped("CANARY\n"),
    case("cd users create", "--stdin", "heidi@example.com --name Heidi --stdin").piped("CANARY\nCANARY\n"),
    case("cd service-accounts token", "--password-stdin", "deployer --password-stdin").piped("CANARY\n"),
    case(
        "cd federated-credentials create",
        "--password-stdin",
        "deployer --issuer https://ci.invalid --subject job --password-stdin",
    )
    .piped("CANARY\n"),
    case("cd registration-tokens create", "--password-stdin", "--password-stdin").piped("CANARY\n"),
    case("cd providers create", "--stdin", "other --issuer https://id.invalid --client-id plural --stdin")
        .piped("CANARY\nCANARY\n"),
];

/// What roles are started with: each of them ends, since there is no cluster, or the database is none.
pub(super) const OF_ROLES: &[Case] = &[
    case(
        "console",
        "--database-url",
        "--database-url postgres://ada:CANARY@127.0.0.1:1/plural --database-timeout-seconds 1",
    ),
    case("console", "--database-url", "--database-url CANARY"),
    case("console", "--database-url", "--database-url mysql://ada:CANARY@127.0.0.1/CANARY"),
    case("console", "--metrics-token", "--metrics-token CANARY --database-url nothing"),
    case("console", "--admin-password", "--admin-password CANARY --database-url nothing"),
    case("console", "--webhook-secret", "--webhook-secret CANARY --database-url nothing"),
    case(
        "console",
        "--audit-stream-secret",
        "--audit-stream-secret CANARY --audit-stream https://127.0.0.1:1/ --database-url nothing",
    ),
    case("console", "--audit-stream-secret", "--audit-stream-secret=CANARY --audit-stream nothing"),
    case(
        "console",
        "--audit-stream-header",
        "--audit-stream-header authorization=CANARY --database-url nothing",
    ),
    case(
        "console",
        "--audit-stream-header",
        "--audit-stream-header CANARY --audit-stream otlp:https://127.0.0.1:1 --database-url nothing",
    ),
    case("console", "--audit-stream", "--audit-stream https://ada:CANARY@127.0.0.1/?token=CANARY"),
    case(
        "console",
        "--audit-stream",
        "--audit-stream ftp://ada:CANARY@127.0.0.1/ --audit-stream-secret CANARY",
    ),
    case("console", "--blob-store", "--blob-store ftp://ada:CANARY@127.0.0.1/artifacts"),
    case("console", "--blob-store", "--blob-store s3://ada:CANARY@127.0.0.1:1 --database-url nothing"),
    case("console", "--key-encryption", "--key-encryption nothing://ada:CANARY@127.0.0.1/?token=CANARY"),
    case(
        "console",
        "--key-encryption",
        "--key-encryption vault://ada:CANARY@127.0.0.1/?token=CANARY --database-url nothing",
    ),
    case("console", "--secret-backend", "--secret-backend nothing://ada:CANARY@127.0.0.1/?token=CANARY"),
    case(
        "console",
        "--secret-backend",
        "--secret-backend vault://ada:CANARY@127.0.0.1/?token=CANARY --database-url nothing",
    ),
    case("console", "--encryption-key-file", "--encryption-key-file FILE --database-url nothing")
        .file("CANARY"),
    case("console", "--tls-key", "--tls-cert FILE --tls-key FILE --listen 127.0.0.1:0").file(KEY),
    case("console reset-password", "--password-stdin", "--password-stdin --database-url nothing")
        .piped("CANARY\n"),
    case("console reset-password", "--password-stdin", "--password-stdin=CANARY"),
    case("demo", "--database-url", "--once --database-url CANARY"),
    case("kubesim", "--run-jobs", "--run-jobs http://ada:CANARY@127.0.0.1:none"),
    case("agent", "--deploy-token", "--console-url https://127.0.0.1:1 --deploy-token CANARY"),
    case("agent", "--deploy-token", "--console-url https://127.0.0.1:1 --deploy-token deploy-CANARY"),
    case("agent", "--join-token", "--console-url https://127.0.0.1:1 --join-token CANARY"),
    case("agent", "--join-token", "--console-url https://127.0.0.1:1 --join-token join-CANARY"),
    case(
        "agent",
        "--console-proxy",
        "--console-url https://127.0.0.1:1 --deploy-token deploy-1 --console-proxy http://ada:CANARY@127.0.0.1:1",
    ),
    case("agent", "--console-url", "--console-url https://ada:CANARY@127.0.0.1:1 --deploy-token deploy-1"),
];
