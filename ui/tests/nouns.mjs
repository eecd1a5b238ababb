// Nouns of the made world that stand below Settings, and the audit log.
import { ago, connection, HOSTILE } from './world.mjs';

/** One that is open, merged, closed, being opened or was not opened. */
function pullRequest(at) {
  const phase = ['OPENED', 'OPENED', 'OPENED', 'PENDING', 'FAILED'][at % 5];
  const isOpened = phase === 'OPENED';
  return {
    id: `pr${at}`,
    name: '',
    url: isOpened ? `https://github.com/acme/shop/pull/${at}` : '',
    title: isOpened ? HOSTILE : `automation-${at % 3}`,
    status: isOpened ? ['OPEN', 'MERGED', 'CLOSED'][at % 3] : null,
    phase,
    error: phase === 'FAILED' ? `apps/web/values.yaml is not there ${HOSTILE}` : null,
    commit: phase === 'FAILED' ? null : '8f08c05fb0e47cdc472367efb81af8f1db335400',
    ref: `plural/service/${at}`,
    repository: 'acme/shop',
    labels: ['infra'],
    creator: 'ada@example.com',
    insertedAt: ago(at),
    updatedAt: ago(at),
    ...lifeOf(at, isOpened),
    project: { name: 'default' },
    automation: at % 4 === 1 ? null : { id: 'pa0', name: 'automation-0', role: 'SERVICE' },
  };
}

/** The newest commit of pull requests that were read back. */
export const HEAD = '51c3a9b2d4e6f80123456789abcdef0123456789';

/** What was read back of it at its host: of one all, of one little, of one why it could not be read. */
function lifeOf(at, isOpened) {
  const isRead = isOpened && at % 5 === 0;
  return {
    number: isOpened ? at : null,
    head: isRead ? HEAD : null,
    base: isRead ? 'main' : null,
    author: isRead ? HOSTILE : null,
    draft: false,
    fork: isRead && at % 2 === 1,
    mergeCommit: null,
    merging: mergingOf(at),
    readAt: isRead ? ago(40) : null,
    readError: isOpened && !isRead ? `the repository is not there ${HOSTILE}` : null,
    checks: isRead ? { state: 'FAILED', passed: 4, failed: 1, pending: 2, incomplete: true } : null,
    reviews: isRead ? { approved: 1, changesRequested: 1 } : null,
    governance: isRead ? governanceOf(at) : null,
    service: isRead ? { id: 's0', name: 'shop', cluster: { id: 'c0', handle: 'eu-prod-0' } } : null,
    stack: isRead ? { id: 'st0', name: 'network' } : null,
    cluster: isRead ? { id: 'c0', handle: 'eu-prod-0' } : null,
  };
}

/** When it may be merged: of one a merge waits, of one it was dropped, and the others may be at any time. */
function mergingOf(at) {
  if (at !== 15 && at !== 60) return { open: true, opensAt: null, windows: [], wish: null };
  const isDropped = at === 60;
  return {
    open: false,
    opensAt: ago(-3600),
    windows: [{ kind: 'ALLOW', schedule: '0 22 * * mon-fri', duration: 14_400, timeZone: 'Europe/Berlin' }],
    wish: {
      by: HOSTILE,
      head: HEAD,
      method: 'SQUASH',
      askedAt: ago(600),
      dueAt: isDropped ? null : ago(-3600),
      error: isDropped ? null : `the host does not answer ${HOSTILE}`,
      dropped: isDropped ? `its head is another now ${HOSTILE}` : null,
    },
  };
}

/** What its governance says: of the first that it confirmed it, of others no. */
function governanceOf(at) {
  const told = { head: HEAD, governance: { name: 'board-0' } };
  return at === 0
    ? { ...told, phase: 'APPROVED', confirmed: HEAD, refused: false, message: null }
    : { ...told, phase: 'CONFIRM', confirmed: null, refused: true, message: HOSTILE };
}

/** `named` makes a list of so many. */
export function nouns(clusters, rows, named) {
  return {
    globalServices: named('global service', (at) => ({
      id: `gs${at}`,
      name: `monitoring-${at}`,
      spread: at % 2 === 0,
      error: at === 1 ? HOSTILE : null,
      generation: '4',
      updatedAt: ago(at),
      tags: [{ name: 'tier', value: 'prod' }],
      instanceCounts: { all: 30, healthy: 28, newest: 12, leaving: 0 },
      rollout:
        at === 0
          ? {
              state: 'HALTED',
              cohort: 'canary',
              message: 'cluster eu-prod-0 failed',
              startedAt: ago(900),
              generation: '4',
              previous: '3',
            }
          : null,
    })),
    globalService: ({ name }) => ({
      id: 'gs0',
      name,
      spread: false,
      generation: '4',
      updatedAt: ago(9),
      tags: [{ name: 'tier', value: 'prod' }],
      instanceCounts: { all: 30, healthy: 28, newest: 12, leaving: 0 },
      rollout: {
        state: 'HALTED',
        cohort: 'canary',
        message: 'cluster eu-prod-0 failed',
        startedAt: ago(900),
        generation: '4',
        previous: '3',
      },
      rolloutStrategy: {
        maxFailures: 0,
        maxUnavailable: '10%',
        soakSeconds: 60,
        timeoutSeconds: 600,
        undo: false,
        cohorts: [{ name: 'canary', members: { percent: 10 } }],
      },
      instances: (args) =>
        connection(
          clusters.map((cluster) => ({
            cluster,
            generation: '4',
            givenAt: ago(60),
            serviceId: `i${cluster.id}`,
            status: 'HEALTHY',
          })),
          args,
        ),
    }),
    managedNamespaces: named('managed namespace', (at) => ({
      id: `n${at}`,
      name: `team-${at}`,
      namespace: `team-${at}`,
      spread: true,
      updatedAt: ago(at),
      instanceCounts: { all: 9, synced: 9, leaving: 0 },
    })),
    serviceContexts: named('context', (at) => ({
      id: `x${at}`,
      name: `context-${at}`,
      secretNames: ['password'],
      updatedAt: ago(at),
    })),
    helmRepositories: named('chart', (at) => ({
      id: `h${at}`,
      name: '',
      url: `oci://registry.example.com/charts-${at}`,
      health: 'PULLABLE',
      pulledAt: ago(at),
    })),
    stackDefinitions: named('definition', (at) => ({
      id: `sd${at}`,
      name: `definition-${at}`,
      description: 'Names of machines',
      configuration: { image: 'registry.example.com/dns', version: `v${at}` },
      steps: [{ cmd: './dns', args: ['push'], stage: 'APPLY' }],
      deleteSteps: [],
      updatedAt: ago(at),
    })),
    scmConnections: named('connection', (at) => ({
      id: `sc${at}`,
      name: `scm-${at}`,
      type: ['GITHUB', 'GITLAB', 'GITEA'][at % 3],
      default: at === 0,
      repositories: ['acme/*', HOSTILE],
      insertedAt: ago(at),
    })),
    scmWebhooks: named('webhook', (at) => ({
      id: `sw${at}`,
      name: `github/acme-${at}`,
      url: `https://console.example.com/ext/v1/webhooks/github/${at}`,
      insertedAt: ago(at),
      connection: { name: `scm-${at}` },
    })),
    prGovernances: named('governance', (at) => ({
      id: `pg${at}`,
      name: `board-${at}`,
      insertedAt: ago(at),
      configuration: { webhook: { url: `https://board-${at}.example.com`, signed: at % 2 === 0 } },
      connection: { id: `sc${at}`, name: `scm-${at}` },
      project: { name: 'default' },
    })),
    prInstances: named('instance', (at) => ({
      id: `pi${at}`,
      state: ['ACTIVE', 'PENDING', 'REMOVED'][at % 3],
      repository: 'acme/shop',
      path: HOSTILE,
      revision: at + 1,
      outdated: at % 3 === 0 ? at % 2 === 0 : null,
      answers: { name: 'shop', replicas: at },
      secretAnswers: at % 2 === 0 ? ['token'] : [],
      insertedAt: ago(at),
      automation: at % 5 === 4 ? null : { id: `pa${at}`, name: `automation-${at}`, revision: at + 2 },
      pullRequest: { id: `pr${at}`, url: `https://github.com/acme/shop/pull/${at}`, creator: 'ada@example.com' },
    })),
    pullRequests: (args) =>
      named('pull request', (at) => pullRequest(at))({
        ...args,
        filter: (one) =>
          (!args.status || one.status === args.status) &&
          (!args.phase || one.phase === args.phase) &&
          (!args.repository || one.repository === args.repository),
      }),
    pullRequest: ({ id }) => pullRequest(Number(id.replace(/^\D+/, ''))),
    prAutomations: named('automation', (at) => ({
      id: `pa${at}`,
      name: `automation-${at}`,
      role: ['SERVICE', 'CLUSTER', null, 'PIPELINE', 'UPDATE', 'UPGRADE', 'COST'][at % 7],
      addon: at % 5 === 2 ? 'ingress-nginx' : null,
      identifier: at === 1 ? null : `acme/${HOSTILE}`,
      documentation: `Adds a service to the fleet: its manifests, its values and the cluster that it runs on. ${HOSTILE}`,
      insertedAt: ago(at),
      project: { name: 'default' },
    })),
    roles: named('role', (at) => ({ id: `ro${at}`, name: `role-${at}`, actions: ['read', 'rollback'], insertedAt: ago(at) })),
    serviceAccounts: named('account', (at) => ({
      id: `sa${at}`,
      name: `ci-${at}`,
      email: `ci-${at}@example.com`,
      insertedAt: ago(at),
    })),
    personas: named('persona', (at) => ({ id: `pe${at}`, name: `persona-${at}`, role: 'DEVELOPER', insertedAt: ago(at) })),
    identityProviders: named('provider', (at) => ({
      id: `ip${at}`,
      name: `provider-${at}`,
      issuer: 'https://login.example.com',
      clientId: 'console',
      domains: ['example.com'],
      createsUsers: true,
      insertedAt: ago(at),
    })),
    invites: named('invite', (at) => ({
      id: `in${at}`,
      name: '',
      email: `new-${at}@example.com`,
      groups: [],
      insertedAt: ago(at),
      expiresAt: ago(-9000),
    })),
    bootstrapTokens: named('token', (at) => ({
      id: `bt${at}`,
      name: `machines-${at}`,
      hint: 'ab12',
      uses: at,
      limit: 9,
      insertedAt: ago(at),
      expiresAt: ago(-9000),
    })),
    backgroundJobs: named('job', (at) => ({
      id: `j${at}`,
      name: '',
      kind: ['reseal', 'move_secrets', 'renew_services', 'of_a_later_release'][at % 4],
      key: `g${at}`,
      state: ['DEAD', 'RUNNING', 'WAITING'][at % 3],
      attempts: at % 7,
      error: at % 3 === 0 ? HOSTILE : null,
      insertedAt: ago(at),
      updatedAt: ago(at),
    })),
    installationDataKeys: [{ id: 'k', purpose: 'SECRETS', encryptedBy: 'file', insertedAt: ago(9) }],
    recordings: named('recording', (at) => ({
      id: `rec${at}`,
      name: '',
      actorName: 'ada@example.com',
      clusterId: 'c0',
      projectId: 'p',
      projectName: 'default',
      requestId: 'req',
      pod: 'web-0',
      namespace: 'shop',
      command: ['sh', '-c', HOSTILE],
      kind: 'EXEC',
      state: 'ENDED',
      bytes: 4000,
      durationMs: 61000,
      insertedAt: ago(at),
    })),
    deploymentSettings: { stacks: { jobSpec: { labels: { fleet: HOSTILE }, requests: { requests: { cpu: '250m' } } } } },
    passkeys: [{ id: 'pk', name: HOSTILE, insertedAt: ago(99) }],
    savedViews: named('view', (at) => ({
      id: `v${at}`,
      name: `view-${at}`,
      page: 'services',
      query: 'status=FAILED',
      insertedAt: ago(at),
    })),
    project: ({ name }) => ({
      id: 'p',
      name,
      default: true,
      insertedAt: ago(99),
      limits: {
        namespaces: ['shop-*'],
        repositories: [HOSTILE],
        runNamespaces: ['plural-runs', 'shop-*'],
        runImages: ['registry.example.com/tools/*'],
        moduleSources: ['registry.opentofu.org/*', 'git::https://git.example.com/shop/*'],
        planServiceAccount: 'reads',
        applyServiceAccount: 'writes',
      },
      stackRules: [
        { path: 'deletions.rego', rego: `package plural.stacks\n\n# ${HOSTILE}\nwarn contains "read it twice" if { true }\n` },
      ],
      stackSettings: {
        jobSpec: {
          namespace: 'shop-runs',
          labels: { team: HOSTILE },
          tolerations: [{ key: 'dedicated', operator: 'Equal', value: 'runs', effect: 'NoSchedule' }],
          requests: { requests: { cpu: '500m' }, limits: { memory: '1Gi' } },
        },
      },
      recordingPolicy: { record: true, keepDays: 90, limitMegabytes: 64, userReaders: [], groupReaders: [] },
      secretHoldings: {
        holdsNone: false,
        holdings: [{ kind: 'CONFIGURATION', backend: 'DATABASE', names: ['eu-prod-0/web-0'], things: 1, values: 2 }],
      },
      dataKeys: [{ id: 'k', purpose: 'SECRETS', encryptedBy: 'file', insertedAt: ago(9) }],
      readBindings: [{ id: 'b', group: { id: 'o', name: HOSTILE } }],
    }),
    user: ({ email }) => ({
      id: 'u',
      name: 'Ada',
      email,
      secondFactor: true,
      roles: { admin: true },
      groups: [{ id: 'o', name: 'group-0' }],
      insertedAt: ago(99),
    }),
    userIdentities: [{ id: 'ui', provider: 'okta', issuer: 'https://login.example.com', subject: HOSTILE }],
    group: ({ name }) => ({ id: 'o', name, members: [{ id: 'u', name: HOSTILE, email: 'ada@example.com' }], insertedAt: ago(9) }),
    auditVerify: {
      batches: 9,
      digest: '',
      keptOutside: 2,
      lines: 900,
      more: false,
      moreProblems: 0,
      sequence: 9,
      unchained: 0,
      problems: [{ kind: 'EDITED', message: HOSTILE }],
    },
    auditCheckpoints: [{ sequence: 9, signedAt: ago(60), digest: '', key: '', text: 'checkpoint' }],
    accessDecision: ({ verb }) => ({
      allowed: verb !== 'pause',
      action: 'write',
      meaning: 'change it',
      reason: 'you may read it, not change it',
      needed: 'the role write on it, its cluster or its project',
      givers: [],
    }),
    audits: named('audit', (at) => ({
      id: `a${at}`,
      insertedAt: ago((rows - at) * 60),
      actorName: 'ada@example.com',
      action: at % 2 ? 'service.kick' : 'service.update',
      noun: 'service',
      name: '',
      targetName: `eu-prod-0/web-${at}`,
      address: '192.0.2.7',
      requestId: `req-${at}`,
      times: 1,
    })),
    gitRepositories: named('repository', (at) => ({
      id: `g${at}`,
      name: '',
      url: `https://git.example.com/shop/deploy-${at}.git`,
      health: at % 9 === 2 ? 'FAILED' : 'PULLABLE',
      error: at % 9 === 2 ? 'the host key is not known' : null,
      authMethod: 'BASIC',
      pulledAt: ago(at),
    })),
    projects: named('project', (at) => ({ id: `p${at}`, name: `project-${at}`, insertedAt: ago(at * 900) })),
    users: named('user', (at) => ({
      id: `u${at}`,
      name: `User ${at}`,
      email: `user-${at}@example.com`,
      roles: { admin: at === 0 },
      insertedAt: ago(at * 900),
    })),
    groups: named('group', (at) => ({ id: `o${at}`, name: `group-${at}`, insertedAt: ago(at * 900) })),
    accessTokens: named('token', (at) => ({
      id: `t${at}`,
      name: '',
      hint: `console-…${1000 + at}`,
      session: at === 0,
      scopes: [],
      insertedAt: ago(at * 900),
    })),
  };
}
