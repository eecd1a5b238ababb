// One thing of each noun below Settings of which the made world has lists.
import { ago, connection, HOSTILE } from '../world.mjs';

export function things(clusters) {
  return {
    serviceContext: ({ name }) => ({
      id: 'x0',
      name,
      configuration: { region: 'eu-1', tier: 'prod' },
      secretNames: ['password'],
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
      hasProxy: false,
      github: { appId: '12', installationId: '34' },
      insertedAt: ago(90000),
      updatedAt: ago(60),
    }),
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
