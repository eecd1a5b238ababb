// Stacks and their runs in the made world: what waits, what fails, what goes on.
import { ago, connection, HOSTILE } from './world.mjs';

const STATUSES = ['PENDING_APPROVAL', 'FAILED', 'RUNNING', 'SUCCESSFUL', 'CANCELLED', 'QUEUED', 'PENDING'];
const TYPES = ['TERRAFORM', 'TERRAFORM', 'ANSIBLE', 'CUSTOM', 'TERRAGRUNT', 'PULUMI'];
const SHA = '4f3a9c1d0e5b7a8f6c2d1e0b9a8f7c6d5e4f3a2b';
export const DIGEST = '9b74c9897bac770ffc029102a200c5de9b74c9897bac770ffc029102a200c5de';
/** What runs of these numbers are for; all others apply or plan. */
const KINDS = { 11: 'DRIFT', 8: 'COMMANDS' };
const isOver = (status) => ['SUCCESSFUL', 'FAILED', 'CANCELLED'].includes(status);

/** A plan of so many resources as OpenTofu writes it, with one of each fate. */
function planJson(rows) {
  const change = (actions, before, after, more = {}) => ({
    actions,
    before,
    after,
    after_unknown: {},
    before_sensitive: {},
    after_sensitive: {},
    ...more,
  });
  const resource = (address, type, one, more = {}) => ({
    address,
    module_address: /^(module\.[^.]+)\./.exec(address)?.[1],
    type,
    name: address.split('.').at(-1),
    mode: 'managed',
    change: one,
    ...more,
  });
  return {
    format_version: '1.2',
    terraform_version: '1.12.1',
    resource_changes: [
      resource(
        'aws_instance.bastion',
        'aws_instance',
        change(
          ['delete', 'create'],
          { ami: 'ami-1', id: 'i-1', tags: { Name: 'bastion', Owner: HOSTILE } },
          { ami: 'ami-2', tags: { Name: 'bastion', Owner: 'ada' } },
          { after_unknown: { id: true }, replace_paths: [['ami']] },
        ),
        { action_reason: 'replace_because_cannot_update' },
      ),
      resource(
        'module.db.aws_db_instance.main',
        'aws_db_instance',
        change(
          ['update'],
          { allocated_storage: 20, password: null, rules: [{ port: 5432 }] },
          { allocated_storage: 40, password: null, rules: [{ port: 5432 }, { port: 5433 }] },
          { before_sensitive: { password: true }, after_sensitive: { password: true } },
        ),
      ),
      resource('module.db.aws_security_group.old', 'aws_security_group', change(['delete'], { name: HOSTILE }, null), {
        action_reason: 'delete_because_no_resource_config',
      }),
      resource('terraform_data.moved', 'terraform_data', change(['no-op'], { input: 'a' }, { input: 'a' }), {
        previous_address: 'terraform_data.before',
      }),
      resource('data.aws_ami.newest', 'aws_ami', change(['read'], null, { owner: 'self' }, { after_unknown: { id: true } })),
      ...Array.from({ length: rows }, (_, at) =>
        resource(
          `module.subnets.aws_subnet.private[${at}]`,
          'aws_subnet',
          change(['create'], null, { cidr_block: `10.0.${at % 256}.0/24` }, { after_unknown: { id: true, arn: true } }),
        ),
      ),
    ],
    resource_drift: [
      resource(
        'aws_instance.bastion',
        'aws_instance',
        change(['update'], { tags: { Owner: 'ada' } }, { tags: { Owner: HOSTILE } }),
      ),
    ],
    output_changes: {
      address: change(['update'], '10.0.0.4', null, { after_unknown: true, before_sensitive: false, after_sensitive: false }),
      token: change(['create'], null, null, { after_unknown: false, before_sensitive: false, after_sensitive: true }),
    },
  };
}

function logText(rows) {
  const lines = Array.from(
    { length: Math.max(3, rows) },
    (_, at) => `aws_subnet.private[${at}]: \u001b[32mCreation complete\u001b[0m after ${at % 9}s [id=subnet-${at}]`,
  );
  return [
    '\u001b[1mInitializing the backend...\u001b[0m',
    `10 %\r50 %\rdone ${HOSTILE}`,
    ...lines,
    '\u001b[31mError:\u001b[0m the quota of subnets is used up',
    '',
  ].join('\n');
}

/** What policies say of a plan: one rule refuses it, one warns, one says where. */
function violations(id) {
  const violation = (at, more) => ({
    id: `${id}-v${at}`,
    severity: 'HIGH',
    policyModule: 'terraform.aws',
    policyUrl: null,
    refuses: false,
    causes: [],
    ...more,
  });
  return [
    violation(0, {
      title: 'A database must not be open to the internet',
      severity: 'CRITICAL',
      policyId: 'PLURAL-AWS-0012',
      policyUrl: 'https://docs.example.com/policies/aws-0012',
      refuses: true,
      causes: [{ resource: 'module.db.aws_db_instance.main', start: 1, end: 9, lines: [] }],
    }),
    violation(1, {
      title: `The tag "Owner" names nobody: ${HOSTILE}`,
      severity: 'MEDIUM',
      policyId: 'tags_of_every_resource_of_the_shop_have_an_owner',
      causes: [{ resource: 'aws_instance.bastion', start: 1, end: 3, lines: [] }],
    }),
    violation(2, { title: 'The plan destroys something', severity: 'UNKNOWN', policyId: 'destroys', policyModule: null }),
  ];
}

/** What Infracost says of it. */
const cost = (rows) => ({
  currency: 'USD',
  monthly: '412.73',
  hourly: '0.565384',
  pastMonthly: '298.10',
  diffMonthly: '114.63',
  omitted: rows > 100 ? rows - 20 : 0,
  resources: [
    { project: 'network', name: 'module.db.aws_db_instance.main', monthly: '301.40' },
    { project: 'network', name: 'aws_instance.bastion', monthly: '61.32' },
    { project: 'network', name: 'aws_eip.nat', monthly: null },
  ],
});

/** What the last look for drift found: a changed resource, one with a hidden field and a long one, and one that is gone. */
function drifted(stack, rows) {
  const resource = (at, address, type, fields, more = {}) => ({
    id: `${stack}-d${at}`,
    address,
    type,
    provider: 'registry.opentofu.org/hashicorp/aws',
    action: 'UPDATED',
    leftOut: 0,
    runId: `${stack}-r11`,
    runNumber: 11,
    firstSeenAt: ago(3 * 86400 - at),
    lastSeenAt: ago(5400),
    fields,
    ...more,
  });
  const field = (path, before, after, more = {}) => ({ path, before, after, sensitive: false, cut: false, ...more });
  return [
    resource(0, 'aws_instance.bastion', 'aws_instance', [
      field('instance_type', '"t3.small"', '"m5.4xlarge"'),
      field('tags.Owner', '"ada"', JSON.stringify(HOSTILE)),
      field('tags.Purpose', null, '"test of the new network"'),
    ]),
    resource(
      1,
      'module.db.aws_db_instance.main',
      'aws_db_instance',
      [
        field('password', null, null, { sensitive: true }),
        field('allocated_storage', '20', '200'),
        field('policy', `"${'allow '.repeat(30)}"`, `"${'deny '.repeat(30)}`, { cut: true }),
      ],
      { leftOut: 4 },
    ),
    resource(2, 'module.db.aws_security_group.old', 'aws_security_group', [], { action: 'DELETED' }),
    ...Array.from({ length: rows > 100 ? 120 : 0 }, (_, at) =>
      resource(at + 3, `module.subnets.aws_subnet.private[${at}]`, 'aws_subnet', [
        field('map_public_ip_on_launch', 'false', 'true'),
      ]),
    ),
  ];
}

function makeRun(stack, number, status, rows) {
  const id = `${stack.id}-r${number}`;
  const isPlanned = !['QUEUED', 'PENDING'].includes(status);
  const isWaiting = status === 'PENDING_APPROVAL';
  const step = (index, phase, stage, name, args, state) => ({
    id: `${id}-${index}`,
    index,
    phase,
    stage,
    name,
    cmd: 'tofu',
    args,
    status: state,
    exitCode: state === 'SUCCESSFUL' ? 0 : state === 'FAILED' ? 1 : null,
    startedAt: state === 'PENDING' ? null : ago(300 - index * 20),
    finishedAt: ['SUCCESSFUL', 'FAILED'].includes(state) ? ago(290 - index * 20) : null,
    logs: ({ from = 0, bytes = 262144 }) => {
      const all = Buffer.from(logText(rows));
      const piece = all.subarray(from, from + bytes);
      return { text: piece.toString(), next: from + piece.length };
    },
  });
  const last =
    status === 'FAILED' ? 'FAILED' : status === 'RUNNING' ? 'RUNNING' : status === 'SUCCESSFUL' ? 'SUCCESSFUL' : 'PENDING';
  const steps = [
    step(0, 'PLAN', 'INIT', 'init', ['init', '-input=false'], isPlanned ? 'SUCCESSFUL' : 'PENDING'),
    step(1, 'PLAN', 'PLAN', 'plan', ['plan', '-input=false', '-lock=false', '-out=$PLAN'], isPlanned ? 'SUCCESSFUL' : 'PENDING'),
    step(2, 'APPLY', 'INIT', 'init', ['init', '-input=false'], isPlanned && !isWaiting ? 'SUCCESSFUL' : 'PENDING'),
    step(3, 'APPLY', 'APPLY', 'apply', ['apply', '-input=false', '$PLAN'], last),
  ];
  return {
    id,
    number,
    kind: KINDS[number] ?? (number % 7 === 3 ? 'DRY_RUN' : 'APPLY'),
    trigger: number === 9 ? 'CRON' : number === 6 ? 'UPSTREAM' : ['MANUAL', 'COMMIT', 'SPEC'][number % 3],
    type: stack.type,
    status,
    phase: isWaiting || !isPlanned ? 'PLAN' : 'APPLY',
    error:
      status === 'FAILED'
        ? `the step "apply" ended with 1: ${HOSTILE}`
        : status === 'CANCELLED'
          ? 'rejected by ada@example.com: too many at once'
          : status === 'PENDING'
            ? 'the Pod cannot be scheduled: no node has 2 processors'
            : null,
    cancelAsked: false,
    sha: SHA,
    message: number % 2 ? 'Widen the network' : HOSTILE,
    commitAuthor: 'Ada',
    author: 'ada@example.com',
    createdAt: ago(400 + (20 - number) * 5000),
    startedAt: isPlanned ? ago(330) : null,
    finishedAt: isOver(status) ? ago(60) : null,
    approval: true,
    requiredApprovals: 2,
    approvals: isPlanned ? [{ approver: 'grace@example.com', digest: DIGEST, at: ago(90) }] : [],
    plan:
      isPlanned && !KINDS[number]
        ? {
            digest: DIGEST,
            add: rows + 1,
            change: 1,
            destroy: 2,
            other: true,
            at: ago(200),
            text: `\u001b[1mOpenTofu will perform the following actions:\u001b[0m\n\n  # aws_instance.bastion must be replaced\n  # ${HOSTILE}\n`,
          }
        : null,
    violations: isWaiting ? violations(id) : [],
    cost: isWaiting ? cost(rows) : null,
    state: isPlanned ? { id, planJson: () => planJson(rows) } : null,
    git: { ref: 'main', folder: 'network' },
    repository: stack.repository,
    workdir: null,
    manageState: true,
    variables: { region: 'eu-1' },
    configuration: { version: '1.12' },
    jobSpec: { namespace: 'plural-runs' },
    job: isPlanned ? { namespace: 'plural-runs', name: `run-${id}` } : null,
    stack: () => stack,
    steps: ({ index }) => steps.filter((one) => index == null || one.index === index),
  };
}

/** How a stack stands by its last look for drift: some drifted, some are as their tool knows them, some nobody has looked at. */
function driftOf(at, rows) {
  if (at % 5 === 4) return { driftStatus: 'UNCHECKED' };
  const hasDrifted = at % 5 === 0;
  const all = hasDrifted ? drifted(`st${at}`, rows) : [];
  return {
    driftStatus: hasDrifted ? 'DRIFTED' : 'IN_SYNC',
    driftedAt: hasDrifted ? ago(3 * 86400) : null,
    driftCheck: {
      checkedAt: ago(5400),
      runNumber: 11,
      count: all.length,
      leftOut: 0,
      error: at % 10 === 0 ? 'the step "plan" ended with 1: the provider refused the token' : null,
      failedAt: at % 10 === 0 ? ago(1800) : null,
    },
    driftSchedule: { crontab: '*/30 * * * *', timeZone: 'UTC', nextAt: ago(-1500), commands: [] },
    drift: (args) => connection(all, args),
  };
}

function makeStack(at, clusters, rows) {
  const type = TYPES[at % TYPES.length];
  const hasCode = at % 11 !== 10;
  const hasState = type === 'TERRAFORM' || type === 'TERRAGRUNT';
  const version = (serial, more = {}) => ({
    id: `v${at}-${serial}`,
    serial,
    lineage: 'b2a4c1d0-0000-7000-8000-000000000000',
    digest: SHA.repeat(2).slice(0, 64),
    size: 4096 + serial * 100,
    resources: 12,
    rejected: null,
    acceptedAt: null,
    author: serial % 2 ? 'run:0190b8a2-7c11-7def-8000-0123456789ab' : 'ada@example.com',
    requestId: `req-${serial}`,
    fence: serial,
    insertedAt: ago((50 - serial) * 4000),
    ...more,
  });
  const versions = hasState
    ? [version(42), { ...version(41), id: `v${at}-x`, rejected: 'its lock was ended', resources: 13 }, version(41), version(40)]
    : [];
  const stack = {
    id: `st${at}`,
    name: `${['network', 'database', 'dns', 'cluster', 'buckets'][at % 5]}-${at}`,
    type,
    status: hasCode ? STATUSES[at % STATUSES.length] : null,
    paused: at % 13 === 4,
    protect: at % 17 === 3,
    tags: [{ name: 'stage', value: at % 2 ? 'test' : 'prod' }, ...(at % 23 === 6 ? [{ name: 'team', value: HOSTILE }] : [])],
    deletedAt: null,
    sourceError: at % 19 === 8 ? 'the folder "network" is not in the commit' : null,
    sha: SHA,
    lastSuccessfulAt: ago(9000),
    insertedAt: ago(90 * 86400),
    updatedAt: ago(4000),
    workdir: null,
    manageState: hasState,
    variables: { region: 'eu-1' },
    approval: true,
    requiredApprovals: 2,
    forbidSelfApproval: true,
    approvalExpiry: '86400s',
    commandApproval: at % 2 === 0,
    policyEngine:
      at % 5 === 0
        ? { type: 'REGO', maxSeverity: 'MEDIUM', customPolicies: true, repositoryId: 'g0', git: { ref: 'v2', folder: 'stacks' } }
        : null,
    timeout: null,
    actor: at % 4 === 0 ? { id: 'sa0', name: 'ci-0', email: 'ci-0@example.com' } : null,
    ...(hasState && hasCode ? driftOf(at, rows) : { driftStatus: 'UNCHECKED' }),
    cron:
      at % 3 === 0
        ? {
            crontab: '0 4 * * 1-5',
            timeZone: 'Europe/Berlin',
            autoApprove: at % 2 === 1,
            nextAt: ago(-9 * 3600),
            error: at % 6 === 3 ? 'the cluster has no agent' : null,
            overrides: {},
          }
        : null,
    changedBy: { id: 'u', name: 'Ada', email: 'ada@example.com' },
    interval: hasCode && at % 3 === 0 ? '5400s' : null,
    connection: hasCode && at % 4 === 0 ? { id: 'sc0', name: 'scm-0' } : null,
    git: hasCode ? { ref: 'main', folder: 'network' } : null,
    repository: hasCode ? { id: 'g0', url: 'https://git.example.com/shop/infrastructure.git' } : null,
    cluster: hasCode ? clusters[at % clusters.length] : null,
    project: { id: 'p', name: 'default' },
    jobSpec: { namespace: 'plural-runs', labels: { team: 'shop' }, requests: { requests: { cpu: '250m', memory: '512Mi' } } },
    configuration: { version: '1.12', terraform: { tofu: true, parallelism: 10 } },
    commands: type === 'CUSTOM' ? [{ cmd: 'sh', args: ['-c', `./dns diff # ${HOSTILE}`], stage: 'PLAN' }] : [],
    deleteCommands: [],
    environment: [
      { name: 'AWS_REGION', value: HOSTILE, secret: false },
      { name: 'AWS_SECRET_ACCESS_KEY', value: '', secret: true },
    ],
    files: [{ path: 'backend.hcl', content: '' }],
    output: [
      { name: 'address', value: '10.0.0.4', json: '"10.0.0.4"', secret: false },
      { name: 'token', value: 'the secret output', json: '"the secret output"', secret: true },
    ],
    lock:
      at % 5 === 1
        ? {
            id: 'lock-1',
            operation: 'OperationTypeApply',
            who: `ada@laptop ${HOSTILE}`,
            author: 'ada@example.com',
            fence: 7,
            insertedAt: ago(700),
          }
        : null,
    stateVersion: versions[0] ?? null,
    stateVersions: versions,
    readBindings: [{ id: 'b', group: { id: 'o', name: HOSTILE } }],
    writeBindings: [],
  };
  const runs = hasCode
    ? Array.from({ length: 12 }, (_, back) =>
        makeRun(stack, 12 - back, back === 0 ? stack.status : KINDS[12 - back] ? 'SUCCESSFUL' : STATUSES[3 + (back % 2)], rows),
      )
    : [];
  return {
    ...stack,
    all: runs,
    runs: (args) => connection((args.of ?? []).length === 0 ? runs : runs.filter((run) => args.of.includes(groupOf(run))), args),
  };
}

/** What a run is of, in lists. */
function groupOf({ kind, trigger }) {
  if (trigger === 'PULL_REQUEST') return 'PULL_REQUEST';
  return kind === 'DRIFT' || kind === 'COMMANDS' ? kind : 'STACK';
}

/** Every five stacks, from the network up, need each other; one takes what nobody may see too. */
function link(all) {
  all.forEach((stack, at) => {
    const needs = at % 5 === 0 ? [] : at % 5 === 4 ? [at - 1, at - 2] : [at - (at % 5)];
    stack.upstream = needs.map((one) => all[one]);
    stack.dependents = [];
    for (const other of stack.upstream) other.dependents.push(stack);
    stack.dependencies = stack.upstream.map((other, place) => ({
      stackId: other.id,
      stack: other,
      outputs:
        place === 0
          ? [
              { output: 'address', variable: 'address' },
              { output: 'token', variable: 'network_token' },
            ]
          : [],
    }));
    if (at === 0) stack.dependencies.push({ stackId: 'hidden', stack: null, outputs: [{ output: 'zone', variable: 'zone' }] });
  });
}

/** Commands under a name: of a stack, with questions of which one depends on another; and of its project. */
function customRuns(stack) {
  const question = (type, name, more = {}) => ({ type, name, optional: false, values: [], ...more });
  const custom = (at, name, more) => ({
    id: `${stack.id}-c${at}`,
    name,
    documentation: HOSTILE,
    updatedAt: ago(4000 + at),
    stack,
    project: stack.project,
    configuration: [],
    ...more,
  });
  return [
    custom(0, 'grow', {
      commands: [{ cmd: './grow.sh', args: ['--verbose'], dir: null, approve: true }],
      configuration: [
        question('INT', 'SIZE', { default: '3', documentation: 'How many nodes' }),
        question('ENUM', 'ZONE', { values: ['a', 'b'], condition: { operation: 'GT', field: 'SIZE', value: '5' } }),
        question('PASSWORD', 'TOKEN', { optional: true, displayName: HOSTILE, placeholder: 't-…' }),
      ],
    }),
    custom(1, 'providers', { stack: null, commands: [{ cmd: 'tofu', args: ['providers'], dir: 'modules', approve: false }] }),
  ];
}

/** What the state of a stack holds: none, a few, or so many that no graph shows each of them. */
function resourcesOf(at, count) {
  const one = (module, type, name, key, links) => ({
    identifier: `${module}${type}.${name}${key === undefined ? '' : `[${JSON.stringify(key)}]`}`,
    resource: type.replace('data.', ''),
    name,
    provider: 'provider["registry.opentofu.org/hashicorp/aws"]',
    configuration: null,
    links,
  });
  if (at === 1) return [];
  const few = [
    one('', 'aws_vpc', 'main', undefined, []),
    one('', 'data.aws_ami', 'base', undefined, []),
    one('module.subnets.', 'aws_subnet', 'private', 0, ['aws_vpc.main']),
    one('module.subnets.', 'aws_subnet', 'private', 1, ['aws_vpc.main']),
    one('module.a.', 'aws_instance', 'web', HOSTILE, ['data.aws_ami.base', 'module.subnets.aws_subnet.private']),
    one('', 'aws_eip', 'web', undefined, ['module.a.aws_instance.web']),
    one('', 'random_id', 'suffix', undefined, []),
  ];
  const many = Array.from({ length: Math.max(0, count - few.length) }, (_, at) => {
    const module = `module.shop${Math.floor(at / 90)}.module.tier${at % 3}.`;
    const type = ['aws_security_group', 'aws_instance', 'aws_route53_record'][Math.floor(at / 3) % 3];
    const before = ['module.subnets.aws_subnet.private', 'aws_security_group', 'aws_instance'][Math.floor(at / 3) % 3];
    const link = Math.floor(at / 3) % 3 === 0 ? before : `${module}${before}.part${at - 3}`;
    return one(module, type, `part${at}`, undefined, [link]);
  });
  return [...few, ...many];
}

/** What the queries of stacks answer. */
export function stacks(clusters, rows) {
  // Runs know of the stack that they are of, and it of them.
  const all = clusters.length === 0 ? [] : Array.from({ length: rows }, (_, at) => makeStack(at, clusters, Math.min(rows, 400)));
  link(all);
  const runOf = ({ id }) => all.find((stack) => id.startsWith(`${stack.id}-`))?.all.find((run) => run.id === id);
  const stackOf = ({ id, name }) => all.find((stack) => stack.id === id || stack.name === name);
  return {
    infrastructureStacks: (args) =>
      connection(
        all.filter(({ name, tags }) => {
          const has = (tag) => tags.some(({ name, value }) => name === tag.name && value === tag.value);
          return (!args.q || name.includes(args.q)) && (!args.tag || has(args.tag));
        }),
        args,
      ),
    stackTags: ['prod', 'test'].map((value) => ({
      tag: { name: 'stage', value },
      count: all.filter(({ tags: [stage] }) => stage.value === value).length,
    })),
    infrastructureStack: stackOf,
    stackGraph: {
      stacks: all.slice(0, 300),
      edges: all.slice(0, 300).flatMap(({ id, upstream }) => upstream.map((other) => ({ stackId: id, upstreamId: other.id }))),
    },
    stackRun: runOf,
    stackRunsWaiting: (args) =>
      connection(
        all.flatMap((stack) => stack.all.filter(({ status }) => status === 'PENDING_APPROVAL')),
        args,
      ),
    stackState: ({ stackId, version }) => ({
      id: version,
      version: stackOf({ id: stackId })?.stateVersion,
      outputs: ['address', 'token'],
      state: resourcesOf(
        all.findIndex(({ id }) => id === stackId),
        rows >= 3000 ? 3000 : 0,
      ),
    }),
    stackStateDiff: [
      { identifier: 'module.subnets.aws_subnet.private[0]', change: 'CHANGED', attributes: ['cidr_block', HOSTILE] },
      { identifier: 'module.subnets.aws_subnet.private[7]', change: 'ADDED', attributes: [] },
      { identifier: 'aws_instance.old', change: 'REMOVED', attributes: [] },
    ],
    customStackRuns: (args) => connection(args.stackId ? customRuns(stackOf({ id: args.stackId })) : [], args),
    checkStackDrift: ({ id }) => stackOf({ id })?.all[0],
    createOnDemandRun: ({ stackId }) => stackOf({ id: stackId })?.all[0],
    approveStackRun: runOf,
    rejectStackRun: runOf,
    cancelStackRun: runOf,
    restartStackRun: runOf,
    updateStack: stackOf,
    createCustomStackRun: ({ attributes: { stackId } }) => customRuns(stackOf({ id: stackId }))[0],
    updateCustomStackRun: ({ id }) => customRuns(stackOf({ id: id.split('-')[0] }))[0],
  };
}
