//! What the pages take for granted, and which of their commands are not run, and why. Those are parsed at least, as all of them are: by
//! `documented` of the program.

/// How a page is followed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Followed {
    /// The page.
    pub(super) page: &'static str,
    /// What its reader has done already, as a script.
    pub(super) before: &'static str,
    /// Texts of the page, and what stands in their place here: names of servers, ids, what a person types at a prompt.
    pub(super) swaps: &'static [(&'static str, &'static str)],
    /// How a command begins, and what its reader has done just before.
    pub(super) just_before: &'static [(&'static str, &'static str)],
    /// How a command begins that the page shows failing, and its exit code.
    pub(super) fails: &'static [(&'static str, i32)],
    /// How a command begins that is not run, and why not.
    pub(super) not_run: &'static [(&'static str, &'static str)],
}

/// What stands in the place of texts of every page.
pub(super) const EVERYWHERE: &[(&str, &str)] = &[
    ("https://git.example.com/team/deploy.git", "@REPOSITORY@"),
    ("https://git.example.com/platform/fleet.git", "@FLEET@"),
    ("https://github.com/you/fleet", "@YOURS@"),
    ("https://console.example.com:8443", "@CONSOLE@"),
    ("https://console.example.com", "@CONSOLE@"),
    ("oci://registry.example.com/charts/redis", "@CHART@"),
    ("~/plural-demo/repository", "@DEMO@"),
    ("demo-1", "blue"),
    // A password is typed; here it is read.
    ("--email admin@localhost", "--email ada@example.com --password-stdin < $PAGE/password"),
    (" --watch", " --watch & sleep 2; kill $!; wait $!; true"),
];

const SERVES: &str =
    "it runs until it is stopped: `start` of the console's tests, `first_password` and `door` start it";
const RUNS: &str = "it needs a cluster that runs the Pods of a run: `stack_runs` takes a stack through its life with OpenTofu itself";
const TUTORIAL: &str = "it needs a cluster that runs the Pods of a run: `stack_runs::tutorial` types each of them, with OpenTofu itself";
const HOST: &str = "a git host is asked: `scm_webhooks` of the console's tests has one";
const BUILDS: &str = "it builds or tests this repository";

/// Every page with commands, in the order in which they are followed: all in one fleet.
pub(super) const PAGES: &[Followed] = &[
    Followed {
        page: "README.md",
        before: "gone blue/web",
        swaps: &[
            ("--url @CONSOLE@", "--url @CONSOLE@ --email ada@example.com --password-stdin < $PAGE/password"),
            ("clusters bootstrap blue", "clusters bootstrap azure"),
        ],
        not_run: &[("cargo xtask", "it builds this repository; `demo` tests what it starts")],
        ..NOTHING
    },
    Followed {
        page: "docs/users.md",
        before: "gone blue/web && plural cd services create blue/web --repository @REPOSITORY@ --ref main --folder web --wait && \
                 { cat password; echo; echo 'a password of hers'; } > passwords",
        swaps: &[
            ("--name 'Grace Hopper'", "--name 'Grace Hopper' --stdin < passwords"),
            ("users delete grace@example.com", "users delete grace@example.com --yes"),
            (
                "lovelace@example.com --group shop-team",
                "lovelace@example.com --group shop-team --password-stdin < password",
            ),
            (
                "lovelace@example.com --project shop --role write",
                "lovelace@example.com --project shop --role write --password-stdin < password",
            ),
            (
                "reset-password grace@example.com",
                "reset-password grace@example.com --password-stdin < password",
            ),
            (
                "--subject repo:acme/shop:ref:refs/heads/main",
                "--subject repo:acme/shop:ref:refs/heads/main --password-stdin < password",
            ),
            (
                "--namespace ci --service-account deployer",
                "--namespace ci --service-account deployer --password-stdin < password",
            ),
            ("--tag stage=edge > token.txt", "--tag stage=edge --password-stdin < password > token.txt"),
        ],
        not_run: &[
            (
                "plural console reset-password",
                "the console of this test has the folder: `first_password` runs it",
            ),
            ("plural second-factor enable", "an app answers: `second_factor` of the console's tests is one"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/access.md",
        before: "plural cd groups create auditors",
        swaps: &[
            ("--url @CONSOLE@", "--url @CONSOLE@ --email ada@example.com --password-stdin < $PAGE/password"),
            (
                "tokens create                                    #",
                "tokens create --password-stdin < $PAGE/password #",
            ),
            (
                "0190b8a2-7c11-7def-8000-0123456789ab",
                "$(plural tokens list -o jsonpath='{range .items[*]}{.id}{\"\\n\"}{end}' | sort | tail -1) --yes",
            ),
        ],
        not_run: &[(
            "plural cd clusters recordings play",
            "nothing was recorded: `recordings` plays what was",
        )],
        ..NOTHING
    },
    Followed {
        page: "docs/roles.md",
        before: "plural cd groups create sre && plural cd access grant read --project shop --group auditors",
        ..NOTHING
    },
    Followed {
        page: "docs/sso.md",
        before: "{ cat password; echo; echo 'a client secret'; } > secrets",
        swaps: &[("--group platform-team=admins", "--group platform-team=admins --stdin < secrets")],
        not_run: &[("plural login", "somebody clicks in a browser: `sso_keycloak` does")],
        ..NOTHING
    },
    Followed {
        page: "docs/audit.md",
        swaps: &[("/mnt/worm/plural-checkpoints.jsonl", "checkpoints.jsonl")],
        not_run: &[("plural console --audit-stream", SERVES)],
        ..NOTHING
    },
    Followed {
        page: "docs/secrets.md",
        before: "gone blue/web",
        not_run: &[
            ("age-keygen", "age is not among the programs of these tests: `encrypted` opens what it made"),
            ("kubectl -n plural-system", "without `age-keygen` there is no identity: `encrypted` gives one"),
            ("sops encrypt", "sops is not among the programs of these tests: `encrypted` opens what it made"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/charts.md",
        before: "echo 'key: mine' > redis.yaml",
        just_before: &[("plural cd services create blue/redis --chart-url", "gone blue/redis")],
        ..NOTHING
    },
    Followed {
        page: "docs/coming-from-argo-cd-and-flux.md",
        before: "kubectl config use-context blue && kubectl create namespace shop && plural cd repositories create @DEMO@ && \
                 printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: settings, namespace: shop}\\n\
                 data: {key: as it was, old: not in git}\\n' > settings.yaml",
        ..NOTHING
    },
    Followed {
        page: "docs/contexts.md",
        before: "gone blue/web; plural cd stacks create vpc && plural cd stacks create shared-db",
        ..NOTHING
    },
    Followed {
        page: "docs/dependencies.md",
        before: "gone blue/web; plural cd services create green/queue --repository @REPOSITORY@ --ref main --folder queue --wait",
        just_before: &[(
            "plural cd services update blue/db --depends-on green/web",
            "plural cd services create green/web --repository @REPOSITORY@ --ref main --folder web --depends-on blue/db",
        )],
        fails: &[
            ("plural cd services update blue/db --depends-on green/web", 1),
            ("plural cd services delete blue/db", 1),
            ("plural cd services delete blue/db --cascade --yes", 0),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/files.md",
        before: "gone blue/web; plural cd contexts delete network --yes; kubectl --context blue create namespace shop || true",
        swaps: &[
            // It goes with the files, so that nothing else may be read from it.
            ("@REPOSITORY@", "@FLEET@"),
            ("plural delete -f fleet -R --wait", "plural delete -f fleet -R --wait --yes"),
            ("-l app=shop --prune", "-l app=shop --prune --yes"),
        ],
        just_before: &[("plural get svc blue/web", "plural apply -f fleet -R --wait")],
        ..NOTHING
    },
    Followed {
        page: "docs/getting-started.md",
        before: "plural delete -f ../files/fleet -R --wait --yes --ignore-not-found; \
                 plural cd services create demo-1/web --repository @DEMO@ --ref main --folder web --wait",
        swaps: &[("clusters bootstrap blue", "clusters bootstrap crimson")],
        just_before: &[("plural cd services create blue/web", "gone blue/web")],
        not_run: &[
            ("cargo xtask up", "it builds this repository; `demo` tests what it starts"),
            ("export PLURAL_CONSOLE_URL=…", "the line is the demo's own: this shell has it"),
            ("plural cd stacks", "the stack is the demo's own: `demo` approves its plan and reads its logs"),
            ("plural console", SERVES),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/global-services.md",
        before: "plural cd clusters tag blue stage=prod region=eu && plural cd clusters tag green stage=prod && \
                 plural cd services create blue/monitoring --repository @REPOSITORY@ --ref main --folder monitoring --wait",
        just_before: &[(
            "plural cd global-services create monitoring -f",
            "plural cd global-services delete monitoring --yes --wait; gone blue/monitoring green/monitoring",
        )],
        ..NOTHING
    },
    Followed {
        page: "docs/health.md",
        before: "plural cd services list && echo 'return obj.status.size' > broken.lua && printf 'apiVersion: example.org/v1\\n\
                 kind: Widget\\nmetadata: {name: w}\\nspec: {size: 3}\\n' > widget.yaml",
        fails: &[("plural health -f - <<", 1), ("plural health -f widget.yaml --script broken.lua", 1)],
        ..NOTHING
    },
    Followed {
        page: "docs/writing-pr-automations.md",
        before: "printf a-token > token.txt && \
                 plural cd scm-connections create writer --type github --repository 'acme/*' --token-file token.txt",
        swaps: &[
            ("--connection github", "--connection writer"),
            ("https://github.com/acme/scaffolds.git", "@REPOSITORY@"),
        ],
        ..NOTHING
    },
    Followed { page: "docs/coming-from-backstage.md", ..NOTHING },
    Followed { page: "docs/house.md", not_run: &[("cargo xtask", BUILDS)], ..NOTHING },
    Followed {
        page: "docs/install.md",
        swaps: &[
            ("clusters bootstrap blue", "clusters bootstrap indigo"),
            ("--limit 50 > token.txt", "--limit 50 --password-stdin < $PAGE/password > token.txt"),
        ],
        not_run: &[
            ("cargo xtask release", BUILDS),
            ("install -m", "it would put a program among those of this machine"),
            (
                "plural console reset-password",
                "the console of this test has the folder: `first_password` runs it",
            ),
        ],
        ..NOTHING
    },
    Followed { page: "docs/managed-namespaces.md", ..NOTHING },
    Followed {
        page: "docs/operations.md",
        not_run: &[(
            "plural cd jobs retry",
            "no job of a console that is well is dead: `background_job` of the console's tests retries one",
        )],
        ..NOTHING
    },
    Followed {
        page: "docs/private-repositories.md",
        before: "echo 'correct horse' > token.txt && cp token.txt new.txt && echo 'bot namespaces=\"git\" ssh-ed25519 \
                 AAAAC3NzaC1lZDI1NTE5AAAAIDk1dPHUTFRWGNXW7UvHFNfMLJ+WVR4R04PbSOt9y9Q4' > allowed_signers",
        swaps: &[
            ("@REPOSITORY@", "@PRIVATE@"),
            ("https://old.example.com/deploy.git", "@PRIVATE@"),
            ("https://new.example.com/deploy.git", "@MOVED@"),
        ],
        just_before: &[(
            "plural cd repositories update @PRIVATE@ --allowed-signers",
            "plural cd repositories create @PRIVATE@ --username bot --password-stdin < token.txt",
        )],
        not_run: &[(
            "plural cd repositories create git@",
            "there is no SSH server here: `git`'s tests read by SSH",
        )],
        ..NOTHING
    },
    Followed {
        page: "docs/rollouts.md",
        before: "gone blue/web green/web; sed '/^rollout/,$d' web.yaml > first.yaml && plural cd global-services create web -f first.yaml --wait",
        swaps: &[("soakSeconds: 300", "soakSeconds: 1")],
        not_run: &[
            (
                "plural cd global-services rollout pause",
                "two clusters are through by then: `global_services` pauses one",
            ),
            ("plural cd global-services rollout resume", "nothing is paused: `global_services` resumes one"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/web-console.md",
        not_run: &[
            ("cargo xtask ui", BUILDS),
            ("cargo build", BUILDS),
            ("cd ui", "the folder of the sources"),
            ("PLURAL_CONSOLE_URL", "Vite serves until it is stopped"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/pr-automations.md",
        before: "printf a-token > token.txt && \
                 plural cd scm-connections create forge --type github --repository 'acme/*' --token-file token.txt && \
                 echo '{name: add-service, role: SERVICE, identifier: acme/shop, title: Add it, message: Adds it}' > service.yaml",
        swaps: &[("--connection github", "--connection forge")],
        not_run: &[
            ("plural pr preview", "a git host is asked"),
            ("plural pr create", "a git host is asked"),
            ("plural pr describe", "a git host is asked before"),
            ("plural pr list --status open --watch", "it runs until it is stopped"),
            ("plural pr refresh", "a git host is asked"),
            ("plural pr merge", "a git host is asked"),
            ("plural pr close", "a git host is asked"),
            ("plural pr windows", "nothing is opened without a git host: `pull_request_merge` has one"),
            ("curl", "token and address are the reader's: `scm_api` sends these requests"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/pr-plans.md",
        not_run: &[
            ("plural pr plan", "agents of clusters are asked"),
            ("plural pr preview", "a git host is asked: `fleet_previews` has one"),
            ("plural pr release", "a pull request of a fork is needed"),
            (
                "plural pr replan",
                "an open pull request is needed: `fleet_pulls` of the console's tests has one",
            ),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/pr-tutorial.md",
        // What the page shows of its copy is put there once that is cloned. No host tells this console of a merge: it looks by itself.
        before: "printf @GITEA_TOKEN@ > token.txt && mv fleet written",
        swaps: &[
            ("git clone https://gitea.example.com/plural/fleet.git", "git clone @GITEA_PUSH@"),
            ("https://gitea.example.com/plural/fleet.git", "@GITEA_CLONE@"),
            ("--base-url https://gitea.example.com", "--api-url @GITEA@"),
            ("'plural/*'", "'@GITEA_OWNER@/*'"),
            ("identifier: plural/fleet", "identifier: @GITEA_OWNER@/fleet"),
            ("--owner plural", "--owner @GITEA_OWNER@"),
        ],
        just_before: &[
            ("plural pr test", "cp -r written/templates fleet/"),
            (
                "git -C fleet add",
                "git -C fleet config user.email ada@example.com && git -C fleet config user.name Ada",
            ),
            (
                "plural cd services describe blue/apps",
                "pull=$(plural pr list --status open --query 'Add shop' -o jsonpath='{.items[0].id}') && \
                 until plural pr merge \"$pull\" --yes; do plural pr refresh \"$pull\"; sleep 0.2; done && \
                 until kubectl --context blue -n apps get configmap shop; do sleep 0.2; done",
            ),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/pr-governance.md",
        before: "gone blue/apps && printf a-token > token.txt && printf 0123456789abcdef > board.secret && \
                 plural cd scm-connections create approver --type github --repository 'acme/*' --token-file token.txt && \
                 plural cd scm-connections create opener --type github --repository 'acme/*' --token-file token.txt && \
                 echo '{name: add-reviewed, identifier: acme/shop, title: Add it, message: Adds it}' > reviewed.yaml && \
                 plural pr automations create --file reviewed.yaml --connection opener",
        ..NOTHING
    },
    Followed {
        page: "docs/pr-instances.md",
        before: "printf a-token > token.txt && \
                 plural cd scm-connections create generated --type github --repository 'acme/*' --token-file token.txt && \
                 echo '{name: add-service, identifier: acme/shop, title: Add it, message: Adds it}' > service.yaml && \
                 plural pr automations create --file service.yaml --connection generated",
        not_run: &[
            (
                "plural pr instances describe",
                "nothing is generated without a git host: `pr_instances` of the console's tests has one",
            ),
            ("plural pr instances diff", "a git host is asked"),
            ("plural pr upgrade 0190", "a git host is asked"),
            ("plural pr uninstall", "a git host is asked"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/saved-views.md",
        swaps: &[(
            "0190b8a2-7c11-7def-8000-0123456789ab",
            "$(plural cd saved-views list -o jsonpath='{.items[0].id}') --yes",
        )],
        ..NOTHING
    },
    Followed {
        page: "docs/scm-connections.md",
        before: "printf a-token > token.txt",
        just_before: &[(
            "plural cd scm-webhooks create",
            "plural cd scm-connections create github --type github --token-file token.txt",
        )],
        not_run: &[
            ("plural cd scm-webhooks register", HOST),
            ("plural cd scm-webhooks unregister", "a git host is asked"),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/github.md",
        before: "printf a-token > token.txt && \
                 printf '%s\\n' '-----BEGIN RSA PRIVATE KEY-----' x '-----END RSA PRIVATE KEY-----' > app.pem",
        not_run: &[("plural cd scm-webhooks register", HOST)],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/gitlab.md",
        before: "printf a-token > token.txt",
        not_run: &[("plural cd scm-webhooks register", HOST)],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/bitbucket-cloud.md",
        before: "printf a-token > token.txt",
        not_run: &[("plural cd scm-webhooks register", HOST)],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/bitbucket-data-center.md",
        before: "printf a-token > token.txt",
        not_run: &[("plural cd scm-webhooks register", HOST)],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/azure-devops.md",
        before: "printf a-token > token.txt",
        not_run: &[("plural cd scm-webhooks register", HOST)],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/gitea.md",
        before: "printf a-token > token.txt",
        not_run: &[("plural cd scm-webhooks register", HOST)],
        ..NOTHING
    },
    Followed {
        page: "docs/git-hosts/plain-git.md",
        before: "printf a-token > token.txt && echo 'git.example.com ssh-ed25519 AAAA' > known_hosts",
        not_run: &[("ssh-keyscan", "there is no SSH server here: `plain_ssh` pushes by SSH")],
        ..NOTHING
    },
    Followed {
        page: "docs/service-life.md",
        before: "plural cd global-services delete web --yes --wait; gone blue/web; plural cd services create blue/web --repository @REPOSITORY@ \
                 --ref main --folder web --namespace shop --wait && another-commit && plural cd services refresh blue/web --wait && \
                 kubectl --context blue -n shop create rolebinding deployer --clusterrole admin --serviceaccount shop:deployer && \
                 kubectl --context blue -n shop create serviceaccount deployer && echo 'policy: {retryLimit: 3}' > sync.yaml",
        just_before: &[(
            "plural cd services update blue/web --sync manual",
            "plural cd services release blue/web",
        )],
        swaps: &[
            (
                "REVISION",
                "$(plural cd services revisions blue/web -o jsonpath='{.items[?(@.restorable==true)].id}' | cut -d' ' -f1)",
            ),
            (
                "019aa8bb-2f50-7f52-a5f1-0a4b58c1b0a2",
                "$(plural cd sync-windows list --cluster blue -o jsonpath='{.items[0].id}') --yes",
            ),
        ],
        not_run: &[(
            "plural cd services canary",
            "no canary waits: `canaries` runs them with Argo Rollouts' and Flagger's objects",
        )],
        ..NOTHING
    },
    Followed { page: "docs/services.md", ..NOTHING },
    Followed { page: "docs/testing.md", not_run: &[("cargo xtask", BUILDS)], ..NOTHING },
    Followed {
        page: "docs/tls.md",
        swaps: &[
            (
                "--email ada@example.com --ca-file ca.pem",
                "--email ada@example.com --ca-file @CA@ --password-stdin < $PAGE/password",
            ),
            ("clusters bootstrap blue", "clusters bootstrap teal"),
        ],
        not_run: &[("plural console", SERVES)],
        ..NOTHING
    },
    Followed {
        page: "docs/stack-definitions.md",
        swaps: &[("stack-definitions delete dns", "stack-definitions delete dns --yes")],
        not_run: &[("plural cd stacks", RUNS)],
        ..NOTHING
    },
    Followed { page: "docs/stack-drift.md", not_run: &[("plural cd stacks", RUNS)], ..NOTHING },
    Followed {
        page: "docs/stack-state.md",
        swaps: &[("stacks detach network", "stacks detach network --yes")],
        not_run: &[
            ("export TF_HTTP_PASSWORD", "it is for a tool that is not run here"),
            ("tofu", "it is built for tests alone: `stacks` runs it"),
            (
                "plural cd stacks state",
                "it needs what the tool wrote: the console's `stack_state` asks for all of it",
            ),
        ],
        ..NOTHING
    },
    Followed {
        page: "docs/stack-tutorial.md",
        not_run: &[("git", TUTORIAL), ("echo", TUTORIAL), ("plural", TUTORIAL)],
        ..NOTHING
    },
    Followed { page: "docs/stacks.md", not_run: &[("plural cd stacks", RUNS)], ..NOTHING },
    Followed {
        page: "docs/stack-imports.md",
        before: "gone blue/web && plural cd stacks create network && plural cd stacks create database",
        ..NOTHING
    },
    Followed {
        page: "docs/sync/drift.md",
        before: "gone blue/web; plural cd services create blue/web --repository @REPOSITORY@ --ref main --folder web --wait && \
                 plural cd services update blue/web --self-heal=false --wait && \
                 kubectl --context blue -n web scale deployment/web --replicas 7 && until plural cd services drift blue/web | \
                 grep -q replicas; do sleep 0.2; done",
        fails: &[("plural cd services diff demo-1/web", 1)],
        ..NOTHING
    },
    Followed {
        page: "docs/sync/prune.md",
        before: "plural cd services create blue/app --repository @REPOSITORY@ --ref main --folder many --wait && fewer && \
                 until plural cd services describe blue/app | grep -q approve-prune; do sleep 0.2; done",
        swaps: &[("approve-prune blue/app --wait", "approve-prune blue/app --wait --yes")],
        ..NOTHING
    },
    Followed { page: "docs/sync/waves.md", ..NOTHING },
    Followed {
        page: "docs/troubleshooting.md",
        before: "plural cd services create blue/api --repository @REPOSITORY@ --ref main --folder api",
        ..NOTHING
    },
    Followed { page: "docs/upgrade.md", ..NOTHING },
    Followed { page: "docs/uninstall.md", before: "kubectl config use-context blue", ..NOTHING },
];

/// A page that needs nothing.
const NOTHING: Followed =
    Followed { page: "", before: "", swaps: &[], just_before: &[], fails: &[], not_run: &[] };
