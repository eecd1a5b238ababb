// One thing of each noun below Settings of which the made world has lists.
import { GraphQLError } from 'graphql';

import { ago, connection, HOSTILE } from '../world.mjs';
import { automation } from './automations.mjs';

const PATCH = `diff --git a/apps/shop.yaml b/apps/shop.yaml
--- /dev/null
+++ b/apps/shop.yaml
@@ -0,0 +1,2 @@
+name: shop
+replicas: 2
`;
const CONFLICT = `--- a/apps/web.yaml
+++ b/apps/web.yaml
@@ -1,2 +1,6 @@
 name: web
+<<<<<<< repository
 port: 9090
+=======
+port: 8080
+>>>>>>> automation
`;
/** What a change of what was generated would be. Made when it is asked for: the modules import each other. */
const CHANGES = () => ({
  repository: 'acme/shop',
  base: 'main',
  commit: '8f08c05fb0e47cdc472367efb81af8f1db335400',
  title: 'Upgrade: add shop',
  message: `Adds shop ${HOSTILE}`,
  patch: PATCH,
  skipped: [],
  warnings: [HOSTILE],
  files: [{ path: 'apps/shop.yaml', change: 'CHANGED', diff: PATCH }],
});
/** What a plan counts: of a service that is planned, and of another. */
const COUNTS = { created: 1, changed: 2, deleted: 1, blocked: 0 };
const NONE = { created: 0, changed: 0, deleted: 0, blocked: 0 };
/** Answers that are refused, as the console tells them. */
const refusal = (answers) =>
  new GraphQLError('context: an answer is refused', { extensions: { code: 'INVALID', field: 'context', answers } });

const WRONG = { extensions: { code: 'INVALID', field: 'mergeWindows' } };

export function things(clusters) {
  return {
    serviceContext: ({ name }) => ({
      id: 'x0',
      name,
      configuration: { region: 'eu-1', tier: 'prod' },
      secretNames: ['password'],
      imports: [
        { stackId: 'st0', output: 'subnet', name: 'subnet', sensitive: false, stack: { id: 'st0', name: 'network-0' } },
        { stackId: 'st9', output: HOSTILE, name: 'zone', sensitive: true, stack: null },
      ],
      insertedAt: ago(9000),
      updatedAt: ago(60),
    }),
    managedNamespace: ({ name }) => ({
      id: 'n0',
      name,
      namespace: name,
      description: HOSTILE,
      spread: true,
      labels: { team: 'shop' },
      insertedAt: ago(9000),
      updatedAt: ago(60),
      target: { tags: { tier: 'prod' } },
      instanceCounts: { all: clusters.length, synced: clusters.length, leaving: 0 },
      instances: (args) =>
        connection(
          clusters.map((cluster) => ({ cluster, state: 'SYNCED', leaving: false })),
          args,
        ),
    }),
    scmConnection: ({ name }) => ({
      id: 'sc0',
      name,
      type: 'GITHUB',
      default: true,
      owner: 'acme',
      repositories: ['acme/*', HOSTILE],
      hasToken: false,
      hasSigningKey: true,
      hasSshKey: false,
      knownHosts: null,
      hasProxy: false,
      github: { appId: '12', installationId: '34' },
      insertedAt: ago(90000),
      updatedAt: ago(60),
    }),
    prAutomation: ({ name }) => automation(name),
    pullRequestMergeTime: ({ mergeWindows }) => {
      const at = mergeWindows.findIndex(({ schedule }) => schedule.startsWith('99'));
      if (at >= 0) throw new GraphQLError(`mergeWindows.${at}.schedule: "99" is not a list of numbers from 0 to 59`, WRONG);
      return { open: false, opensAt: ago(-7200) };
    },
    previewPullRequest: ({ context }) => {
      if (context.name === 'taken') throw refusal({ name: 'must be new: a cluster has this name' });
      return {
        repository: 'acme/shop',
        base: 'main',
        commit: '8f08c05fb0e47cdc472367efb81af8f1db335400',
        title: `Add ${context.name}`,
        message: `Adds ${context.name} ${HOSTILE}`,
        patch: PATCH,
        skipped: ['apps/none.yaml'],
        warnings: [HOSTILE],
        files: [
          { path: 'apps/shop.yaml', change: 'CREATED', diff: PATCH },
          { path: `old/${HOSTILE}`, change: 'DELETED', diff: `--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-${HOSTILE}\n` },
        ],
      };
    },
    planPullRequestPreview: { id: 'fp0' },
    replanPullRequest: [{ id: 'fp0' }],
    fleetPlan: ({ id }) => ({
      id,
      phase: 'DONE',
      error: null,
      ref: 'main',
      sha: '8f08c05fb0e47cdc472367efb81af8f1db335400',
      base: 'main',
      baseSha: '1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d',
      merged: true,
      movedSha: '9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c',
      untouched: 3,
      composed: 1,
      omitted: 0,
      expiresAt: ago(-3000),
      stacks: [
        {
          problem: null,
          stack: { id: 'st0', name: 'network' },
          run: { id: 'run0', number: 7, status: 'SUCCESSFUL', plan: { add: 1, change: 2, destroy: 0 } },
        },
        { problem: HOSTILE, stack: { id: 'st1', name: 'dns' }, run: null },
      ],
      reach: {
        clusters: [
          { handle: 'eu-prod-0', services: 2, waiting: 0, failed: 1, away: 0, late: 0, counts: COUNTS },
          { handle: 'eu-prod-1', services: 1, waiting: 0, failed: 0, away: 1, late: 0, counts: NONE },
        ],
        parts: [
          { id: 'fpp0', name: 'shop', handle: 'eu-prod-0', state: 'PLANNED', error: null, counts: COUNTS },
          { id: 'fpp1', name: 'web', handle: 'eu-prod-0', state: 'FAILED', error: HOSTILE, counts: NONE },
          { id: 'fpp2', name: 'shop', handle: 'eu-prod-1', state: 'AWAY', error: null, counts: NONE },
        ],
      },
    }),
    fleetPlanPart: {
      objects: [
        {
          action: 'CHANGE',
          why: null,
          location: 'apps/shop.yaml:1',
          wave: null,
          object: { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'settings' },
          fields: [{ path: '/data/note', before: HOSTILE, after: '"2"', hidden: false }],
          fieldsOmitted: 0,
        },
      ],
      problems: [],
    },
    createPullRequest: { id: 'pr3' },
    prInstance: ({ id }) => ({
      id,
      state: 'ACTIVE',
      repository: 'acme/shop',
      base: 'main',
      path: `apps/${HOSTILE}`,
      revision: 1,
      digest: '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae',
      outdated: true,
      answers: { name: 'shop', size: HOSTILE, replicas: 2 },
      secretAnswers: ['token', 'old-token'],
      commit: '51c3a9b2d4e6f80123456789abcdef0123456789',
      baseCommit: '8f08c05fb0e47cdc472367efb81af8f1db335400',
      insertedAt: ago(9000),
      updatedAt: ago(60),
      files: clusters.map((_, at) => ({
        path: `apps/shop/${at}-${HOSTILE}.yaml`,
        digest: at % 7 === 6 ? null : '2c26b46b',
        created: at % 2 === 0,
      })),
      automation: { id: 'pa0', name: 'automation-0', revision: 3, patch: false },
      project: { name: 'default' },
      pullRequest: {
        id: 'pr1',
        title: HOSTILE,
        url: 'https://github.com/acme/shop/pull/1',
        status: 'MERGED',
        phase: 'OPENED',
        creator: 'ada@example.com',
        insertedAt: ago(9000),
      },
      change: null,
    }),
    diffPrInstance: [
      { path: 'apps/shop.yaml', drift: 'CHANGED', diff: PATCH },
      { path: 'apps/none.yaml', drift: 'MISSING', diff: `--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-${HOSTILE}\n` },
      { path: 'apps/same.yaml', drift: 'SAME', diff: '' },
    ],
    previewPrInstanceUpgrade: () => {
      const changes = CHANGES();
      return {
        ...changes,
        files: [...changes.files, { path: 'apps/web.yaml', change: 'CHANGED', diff: CONFLICT }],
        conflicts: [`apps/web.yaml: both changed the same lines ${HOSTILE}`],
      };
    },
    previewPrInstanceUninstall: CHANGES,
    planPrInstanceUpgrade: { id: 'fp0' },
    planPrInstanceUninstall: { id: 'fp0' },
    upgradePrInstance: { id: 'pr3' },
    upgradePrInstances: [
      { error: null, instance: { id: 'pi0', repository: 'acme/shop', path: 'apps/shop' }, pullRequest: { id: 'pr3' } },
      { error: HOSTILE, instance: { id: 'pi6', repository: 'acme/shop', path: HOSTILE }, pullRequest: null },
    ],
    uninstallPrInstance: { id: 'pr3' },
    gitRepository: ({ id }) => ({
      id,
      url: 'https://git.example.com/shop/deploy-0.git',
      health: 'FAILED',
      error: 'the host key is not known',
      authMethod: 'BASIC',
      pulledAt: ago(600),
      insertedAt: ago(90000),
      signedCommits: true,
    }),
    stackDefinition: ({ name }) => ({
      id: 'sd0',
      name,
      description: 'Names of machines',
      configuration: {
        image: 'registry.example.com/dns',
        version: 'v1',
        hooks: [{ cmd: './dns', args: ['login'], afterStage: 'INIT' }],
      },
      steps: [
        { cmd: 'sh', args: ['-c', './dns diff'], stage: 'PLAN' },
        { cmd: 'sh', args: ['-c', './dns push'], stage: 'APPLY' },
      ],
      deleteSteps: [{ cmd: 'sh', args: ['-c', './dns clear'], stage: 'DESTROY' }],
      insertedAt: ago(90),
      updatedAt: ago(9),
    }),
    role: ({ name }) => ({ id: 'ro0', name, description: 'Who is on call', actions: ['read', 'rollback'], insertedAt: ago(90) }),
    serviceAccount: ({ id }) => ({ id, name: 'ci-0', email: 'ci-0@example.com', insertedAt: ago(90) }),
    federatedCredentials: [
      { id: 'f0', issuer: 'https://ci.example.com', subject: HOSTILE, audience: 'plural', scopes: [], insertedAt: ago(90) },
    ],
    persona: ({ name }) => ({ id: 'pe0', name, role: 'DEVELOPER', insertedAt: ago(90), bindings: [] }),
    identityProvider: ({ name }) => ({
      id: 'ip0',
      name,
      issuer: 'https://login.example.com',
      clientId: 'console',
      hasSecret: true,
      scopes: ['openid', 'email'],
      domains: ['example.com'],
      createsUsers: true,
      groups: [],
      insertedAt: ago(90),
    }),
  };
}
