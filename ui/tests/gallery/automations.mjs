// Automations of the made world: one with a little of everything, one that asks and does nothing yet, and one with as much as the console takes.
import { ago, HOSTILE } from '../world.mjs';

const many = (count, make) => Array.from({ length: count }, (_, at) => make(at));

/** An edit, a script and a window with what no form shows in full: it has to stay. */
const usual = () => ({
  labels: ['infra', 'team, shop'],
  configuration: [
    { type: 'STRING', name: 'name', documentation: HOSTILE, optional: false, validation: { regex: '^[a-z]+$', json: false } },
    { type: 'ENUM', name: 'size', default: 'small', values: ['small', HOSTILE], optional: true },
    {
      type: 'INT',
      name: 'replicas',
      optional: true,
      condition: { operation: 'EQ', field: 'size', value: 'small' },
    },
    { type: 'CLUSTER', name: 'cluster', optional: true, page: 1 },
    { type: 'PASSWORD', name: 'token', optional: true, page: 1 },
  ],
  confirmation: { text: HOSTILE, checklist: [{ label: 'I asked' }] },
  secrets: {
    cluster: 'blue',
    namespace: 'apps',
    name: 'db',
    entries: [{ name: 'password', documentation: HOSTILE, autogenerate: true }],
  },
  git: { ref: 'main', folder: 'scaffolds', files: ['../shared/**'] },
  creates: {
    git: { ref: 'v1', folder: '', files: null },
    templates: [
      {
        source: 'a.yaml',
        destination: HOSTILE,
        external: true,
        condition: null,
        context: { tier: { of: 2 } },
        verbatim: ['name'],
      },
      {
        source: 'b.yaml',
        destination: 'b/{{ context.name }}.yaml',
        external: false,
        condition: null,
        context: null,
        verbatim: [],
      },
    ],
  },
  updates: {
    regexes: [],
    files: [],
    replaceTemplate: null,
    matchStrategy: null,
    yq: '.spec',
    regexReplacements: [{ file: 'a.txt', regex: 'a+', replacement: 'b', templated: true }],
    yamlOverlays: [
      {
        file: 'kustomization.yaml',
        yaml: 'resources: []',
        templated: true,
        listMerge: 'APPEND',
        listKey: null,
        document: { index: 1, kind: null, name: null },
      },
    ],
    edits: [
      { file: 'values.yaml', format: null, document: null, edit: { op: 'set', path: 'spec.replicas', value: 2 } },
      {
        file: 'main.tf',
        format: 'hcl',
        document: null,
        edit: { op: 'block', block: 'module', labels: [HOSTILE], value: { source: './service' } },
      },
    ],
  },
  deletes: { files: [], folders: ['old'] },
  lua: { script: 'return {}', folder: null, external: false },
  mergeWindows: [
    { kind: 'ALLOW', schedule: '0 22 * * 1-5', duration: 14_400, timeZone: 'Europe/Berlin' },
    { kind: 'DENY', schedule: '0 0 24 12 *', duration: 172_800, timeZone: 'UTC' },
    { kind: 'ALLOW', schedule: '30 9 * * sat', duration: 5400, timeZone: 'UTC' },
  ],
});

const empty = {
  role: null,
  documentation: null,
  labels: [],
  identifier: null,
  branchPrefix: null,
  connection: null,
  governance: null,
  repository: null,
  configuration: [],
  confirmation: null,
  secrets: null,
  git: null,
  creates: { git: null, templates: [] },
  updates: { regexes: [], files: [], regexReplacements: [], yamlOverlays: [], edits: [] },
  deletes: { files: [], folders: [] },
  lua: null,
  mergeWindows: [],
  createBindings: [],
};

const full = () => ({
  configuration: many(64, (at) => ({
    type: ['STRING', 'INT', 'BOOL', 'ENUM', 'JSON', 'PASSWORD'][at % 6],
    name: `answer_${at}`,
    documentation: at === 7 ? HOSTILE : `What number ${at} is`,
    values: at % 6 === 3 ? ['small', 'large'] : [],
    optional: true,
    page: Math.floor(at / 16),
    condition: at === 0 ? null : { operation: 'NOT', field: `answer_${at - 1}`, value: 'x' },
  })),
  creates: {
    git: null,
    templates: many(200, (at) => ({
      source: `templates/${at}.yaml`,
      destination: `apps/${at}/{{ context.answer_0 }}.yaml`,
      external: false,
      condition: at % 2 === 0 ? null : 'context.answer_2',
      context: null,
      verbatim: [],
    })),
  },
  mergeWindows: many(20, (at) => ({
    kind: at % 5 === 4 ? 'DENY' : 'ALLOW',
    schedule: `${at} ${at} * * *`,
    duration: 3600 * (at + 1),
    timeZone: 'Europe/Berlin',
  })),
});

export const automation = (name) => ({
  id: 'pa0',
  name,
  role: 'SERVICE',
  documentation: HOSTILE,
  identifier: 'acme/shop',
  branch: null,
  branchPrefix: 'plural/service',
  title: 'Add {{ context.name }}',
  message: 'Adds {{ context.name }}',
  patch: false,
  mayCreate: true,
  insertedAt: ago(90000),
  updatedAt: ago(60),
  project: { name: 'default' },
  connection: { id: 'sc0', name: 'scm-0' },
  governance: { id: 'pg0', name: 'board-0' },
  repository: { id: 'g0', url: 'https://github.com/acme/scaffolds.git' },
  addon: null,
  vendor: { helm: null },
  createBindings: [{ user: null, group: { name: 'developers' } }],
  ...usual(),
  ...(name === 'automation-empty' ? empty : name === 'automation-full' ? full() : {}),
});
