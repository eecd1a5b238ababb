// Walks through the Kubernetes pages of a real console's cluster as a person does, and says what it saw as one JSON object.
// The cluster is simulated (`plural demo`) or real; objects are made in a namespace of their own through the console.
//
//   kubernetes.mjs walk CONSOLE EMAIL PASSWORD CLUSTER [STEP…]   everything, or these steps: see walk(); of one that fails, a picture
//                                                                in the folder $PICTURES, where that is set
//   kubernetes.mjs read CONSOLE EMAIL PASSWORD CLUSTER      what needs no simulated pods: for a real API server
//   kubernetes.mjs gallery CONSOLE EMAIL PASSWORD CLUSTER FOLDER [1920-dark…]   pictures of every page, at all widths and schemes or these
//   kubernetes.mjs scroll CONSOLE EMAIL PASSWORD CLUSTER    frames while all its pods are scrolled through
import { strict as assert } from 'node:assert';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { front } from './front.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const [what, console_, email, password, cluster, ...only] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const proxy = await front(console_);
const problems = [];
const seen = {};
/** What a browser says of answers that a test asks for on purpose. */
const EXPECTED = /status of (403|404|409|410|422|429|400)|ERR_(FAILED|EMPTY_RESPONSE|CONNECTION|INCOMPLETE|SOCKET)|WebSocket/;
const base = `/clusters/${cluster}/kubernetes`;
const ns = `walk-${Date.now().toString(36)}`;
const HOSTILE = '<img src=x onerror=alert(1)>\u202egnp.exe';

async function signIn(who, secret, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.setDefaultNavigationTimeout(60_000);
  page.on('console', (message) => {
    if (message.type() === 'error' && !EXPECTED.test(message.text())) problems.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error}`));
  page.on('dialog', (dialog) => {
    if (dialog.type() === 'beforeunload') return void dialog.accept();
    if (dialog.message() === 'Throw your changes away?') {
      seen.asksBefore = (seen.asksBefore ?? 0) + 1;
      return void dialog.accept();
    }
    problems.push(`${page.url()}: a dialog: ${dialog.message()}`);
    return void dialog.dismiss();
  });
  await page.goto(`${proxy.url}/auth/sign-in`);
  await page.locator('input[name=email]').fill(who);
  await page.locator('input[name=password]').fill(secret);
  await page.getByRole('button').first().click();
  await page.getByRole('heading', { level: 1 }).waitFor();
  return page;
}

/** Asks the cluster as the page does: with the cookie and our header. */
async function ask(page, method, path, body, type = 'application/json') {
  return page.evaluate(
    async ([method, path, body, type]) => {
      const headers = { 'x-plural-csrf': '1', ...(body && { 'content-type': type }) };
      const answer = await fetch(path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      return { status: answer.status, body: await answer.json().catch(() => null) };
    },
    [method, path.startsWith('/') ? path : `/k8s/${cluster}/${path}`, body, type],
  );
}

/** An API server judges by its rules some time after it took them. */
async function answers(page, path, wanted) {
  for (const end = Date.now() + 60_000; ;) {
    const { status } = await ask(page, 'GET', path);
    if (status === wanted) return;
    assert.ok(Date.now() < end, `${path}: ${status} and not ${wanted}`);
  }
}

async function make(page, path, object) {
  const { status, body } = await ask(page, 'POST', path, object);
  assert.equal(status, 201, `${path}: ${JSON.stringify(body)}`);
  return body;
}

const object = (search) => `${base}/object?${new URLSearchParams(search)}`;
const go = (page, path) => page.goto(proxy.url + path);

async function faults(page) {
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }),
  );
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
}

/** What axe finds serious, whether the page is wider than the window, whether something hostile came alive. */
async function judge(page, name) {
  await page.locator('h1').waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .mantine-Button-loader') === null);
  await page.evaluate(axe);
  let found = await faults(page);
  // What fades in or out is faint for a moment: what is wrong is so when all stands still, too.
  for (let turn = 0; turn < 2 && found.length > 0; turn += 1) {
    await page.waitForFunction(() =>
      document.getAnimations().every((one) => one.playState !== 'running' || one.effect?.getTiming().iterations === Infinity),
    );
    found = await faults(page);
  }
  for (const { id, nodes } of found) problems.push(`${name}: axe ${id}: ${nodes[0].html.slice(0, 300)}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) problems.push(`${name}: ${wide} px wider than the window`);
  const alive = await page.evaluate(
    () =>
      document.querySelectorAll(
        'img:not(.cm-widgetBuffer), iframe, object, [onerror], a[href^="javascript:" i], a[href^="data:" i]',
      ).length,
  );
  if (alive > 0) problems.push(`${name}: ${alive} elements that text from a cluster may have made`);
  seen.pages = (seen.pages ?? 0) + 1;
}

async function seed(page) {
  await make(page, 'api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: ns } });
  const evil =
    '\u001b]52;c;aGVsbG8=\u0007\u001b]0;taken\u0007\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007 \u001b[38;2;255;0;0mred\u001b[0m\r\n';
  await make(page, `apis/apps/v1/namespaces/${ns}/deployments`, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'cart', labels: { app: 'cart' }, annotations: { docs: 'javascript:alert(1)', note: HOSTILE } },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: 'cart' } },
      template: {
        metadata: { labels: { app: 'cart' }, annotations: { 'kubesim.plural.sh/exec': JSON.stringify({ evil }) } },
        spec: {
          containers: [
            { name: 'cart', image: 'registry.example.com/cart:1', envFrom: [{ configMapRef: { name: 'cart' } }] },
            { name: 'side', image: 'registry.example.com/side:1' },
          ],
        },
      },
    },
  });
  const core = (kind, more) => ({ apiVersion: 'v1', kind, metadata: { name: 'cart' }, ...more });
  await make(
    page,
    `api/v1/namespaces/${ns}/configmaps`,
    core('ConfigMap', { data: { page: `<script>alert(1)</script>${HOSTILE}` } }),
  );
  await make(page, `api/v1/namespaces/${ns}/secrets`, core('Secret', { data: { password: btoa('hunter2') } }));
  const spec = { selector: { app: 'cart' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] };
  await make(page, `api/v1/namespaces/${ns}/services`, core('Service', { spec }));
}

/** A list that lives, is searched, sorted, selected by labels and moved through by keys. */
async function lists(page) {
  await go(page, `${base}?kind=configmaps&ns=${ns}`);
  const table = page.getByRole('table', { name: 'ConfigMap' });
  await table.getByRole('link', { name: 'cart' }).waitFor();
  await page.getByText('watched, as of').waitFor();
  const began = Date.now();
  await make(page, `api/v1/namespaces/${ns}/configmaps`, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'zebra', labels: { a: 'b' } },
  });
  await table.getByRole('link', { name: 'zebra' }).waitFor();
  seen.changeSeenAfterMs = Date.now() - began;
  await page.getByRole('button', { name: 'Name' }).click();
  await page.getByRole('button', { name: 'Name' }).click();
  await page.waitForFunction(() => document.querySelector('[data-index="0"] a')?.textContent === 'zebra');
  await page.getByRole('searchbox', { name: 'Search configmaps' }).fill('zeb');
  await table.getByRole('link', { name: 'cart' }).waitFor({ state: 'detached' });
  await page.getByRole('searchbox', { name: 'Search configmaps' }).fill('');
  await page.getByRole('textbox', { name: 'Labels' }).fill('a in (b)');
  await page.keyboard.press('Enter');
  await table.getByRole('link', { name: 'cart' }).waitFor({ state: 'detached' });
  await table.getByRole('link', { name: 'zebra' }).waitFor();
  await page.getByRole('textbox', { name: 'Labels' }).fill('no (selector');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').first().waitFor();
  await go(page, `${base}?kind=configmaps&ns=${ns}`);
  await table.getByRole('link', { name: 'cart' }).waitFor();
  await page.getByRole('region', { name: /scrolls/ }).focus();
  await page.keyboard.press('j');
  await page.waitForFunction(() => document.activeElement?.closest('[data-index="0"]') !== null);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'cart', level: 1 }).waitFor();
  await ask(page, 'DELETE', `api/v1/namespaces/${ns}/configmaps/zebra`);
}

/** A watch that is too old, or tells other columns: the list is read again, and nothing is lost or doubled. */
async function tooOld(page) {
  let watches = 0;
  let reads = 0;
  await page.route(/\/api\/v1\/namespaces\/[^/]+\/configmaps\?/, (route) => {
    if (!route.request().url().includes('watch=true')) {
      reads += 1;
      return route.continue();
    }
    watches += 1;
    const gone = { type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old resource version', reason: 'Expired' } };
    const rows = [{ cells: ['odd', 'x'], object: { metadata: { name: 'odd', namespace: ns, uid: 'odd' } } }];
    const other = { type: 'ADDED', object: { kind: 'Table', columnDefinitions: [{ name: 'Name' }, { name: 'Odd' }], rows } };
    const end = [gone, other][watches - 1];
    if (end === undefined) return route.continue();
    return route.fulfill({ status: 200, contentType: 'application/json', body: `${JSON.stringify(end)}\n` });
  });
  await go(page, `${base}?kind=configmaps&ns=${ns}`);
  await page.waitForFunction(() => document.body.innerText.includes('watched, as of'));
  while (reads < 3) await page.waitForEvent('requestfinished');
  await page.getByRole('table', { name: 'ConfigMap' }).getByRole('link', { name: 'cart' }).waitFor();
  await page.getByRole('columnheader', { name: 'Odd' }).waitFor({ state: 'detached' });
  assert.deepEqual(
    await page.getByRole('link', { name: 'odd', exact: true }).allInnerTexts(),
    [],
    'a row of other columns stays',
  );
  await page.unroute(/configmaps/);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}

/** What a Secret holds is on no page before it is asked for. */
async function secrets(page) {
  const asked = [];
  const note = (request) => asked.push(request.url());
  page.on('request', note);
  await go(page, object({ kind: 'secrets', ns, name: 'cart' }));
  await page.getByText('hidden, 7 bytes').waitFor();
  await judge(page, 'a secret');
  assert.ok(!(await page.locator('body').innerText()).includes('hunter2'));
  await page.getByRole('button', { name: 'Show password' }).click();
  await page.getByText('hunter2').waitFor();
  await go(page, object({ kind: 'secrets', ns, name: 'cart', tab: 'yaml' }));
  await page.getByText('(hidden, 7 bytes)').waitFor();
  assert.ok(!(await page.locator('body').innerText()).includes(btoa('hunter2')));
  // By key: a click that waits for nothing may come to where it stood.
  await page.locator('button[aria-disabled]', { hasText: 'Edit' }).press('Enter');
  await page.getByText('Show them first').waitFor();
  await page.keyboard.press('Escape');
  // A change to it is kept on the page alone: in no storage, in no address; and it is not thrown away without a word.
  await page.getByRole('checkbox', { name: 'Show values' }).check();
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await replaceInEditor(page, 'password:', 'password: bmV2ZXIga2VwdA==');
  const kept = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, location.href]));
  assert.ok(!/bmV2ZXIga2VwdA|aHVudGVyMg/.test(kept), 'a secret is stored');
  const before = seen.asksBefore ?? 0;
  await page.getByRole('tab', { name: 'Events' }).click();
  await page.getByText('Events, newest first').waitFor();
  assert.equal(seen.asksBefore, before + 1, 'it asks before it throws a change away');
  page.off('request', note);
  assert.deepEqual(
    asked.filter((address) => /hunter2|aHVudGVyMg|bmV2ZXIga2VwdA/.test(address)),
    [],
  );
}

async function replaceInEditor(page, from, to) {
  const text = page.getByRole('textbox', { name: 'YAML to change' });
  const line = page.locator('.cm-line', { hasText: from }).first();
  await line.click();
  await page.keyboard.press('End');
  await page.keyboard.press('Shift+Home');
  await page.keyboard.insertText(to);
  await text.getByText(to.trim()).waitFor();
}

/** An edit is tried, compared and written; a conflict and a lost network cost nothing that was typed. */
async function edits(page) {
  const path = `api/v1/namespaces/${ns}/configmaps/edited`;
  await make(page, `api/v1/namespaces/${ns}/configmaps`, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'edited' },
    data: { one: 'first', two: 'second' },
  });
  const address = object({ kind: 'configmaps', ns, name: 'edited', tab: 'yaml' });
  await go(page, address);
  await page.getByRole('button', { name: 'Edit' }).click();
  await replaceInEditor(page, 'one: first', 'one: FIRST');
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByText('What the server would make of it').waitFor();
  await page.locator('.cm-deletedChunk', { hasText: 'first' }).waitFor();
  await judge(page, 'a reviewed change');
  assert.equal((await ask(page, 'GET', path)).body.data.one, 'first', 'a dry run writes nothing');
  // Somebody else writes meanwhile.
  await ask(page, 'PATCH', path, { data: { two: 'SECOND' } }, 'application/merge-patch+json');
  await page.getByRole('button', { name: 'Write' }).click();
  await page.getByText('Somebody changed it meanwhile').waitFor();
  await page.locator('.cm-insertedLine, .cm-changedLine', { hasText: 'SECOND' }).first().waitFor();
  await page.getByRole('button', { name: 'Put mine on top' }).click();
  await page.getByRole('textbox', { name: 'YAML to change' }).getByText('one: FIRST').waitFor();
  // The network goes in the middle of it.
  proxy.cut(true);
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByText('What you typed stays here').waitFor();
  await page.getByRole('textbox', { name: 'YAML to change' }).getByText('one: FIRST').waitFor();
  proxy.cut(false);
  // And the page itself.
  await page.reload();
  await page.getByRole('textbox', { name: 'YAML to change' }).getByText('one: FIRST').waitFor();
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByRole('button', { name: 'Write' }).click();
  await page.getByRole('button', { name: 'Edit' }).waitFor();
  assert.deepEqual((await ask(page, 'GET', path)).body.data, { one: 'FIRST', two: 'SECOND' });
  // Text that kubectl would take for a truth value or a number is quoted, and a mode is a mode.
  await ask(page, 'PATCH', path, { data: { one: 'yes', two: '0644' } }, 'application/merge-patch+json');
  await go(page, address);
  await page.locator('.cm-line', { hasText: 'one: "yes"' }).waitFor();
  await page.locator('.cm-line', { hasText: 'two: "0644"' }).waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await replaceInEditor(page, 'one: "yes"', 'one: yes');
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByText('The server would change nothing').waitFor();
  await page.getByRole('button', { name: 'Back' }).click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await ask(page, 'PATCH', path, { data: { one: 'FIRST' } }, 'application/merge-patch+json');
  await page.locator('.cm-line', { hasText: 'one: FIRST' }).waitFor();
  // What the server refuses is told by the server.
  await page.getByRole('button', { name: 'Edit' }).click();
  await replaceInEditor(page, 'one: FIRST', 'one: [1, 2]');
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByText('What you typed stays here').waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Edit' }).waitFor();
}

/** Whole numbers above 2^53 keep their digits, and what JSON has no word for is not sent as nothing. */
async function numbers(page) {
  const LONG = '9007199254740993';
  const raw = (method, path, body) =>
    page.evaluate(
      async ([method, path, body]) => {
        const headers = { 'x-plural-csrf': '1', 'content-type': 'application/json' };
        const answer = await fetch(path, { method, headers, ...(body && { body }) });
        return { status: answer.status, text: await answer.text() };
      },
      [method, `/k8s/${cluster}/${path}`, body],
    );
  const jobs = `apis/batch/v1/namespaces/${ns}/jobs`;
  const containers = [{ name: 'long', image: 'registry.example.com/long:1' }];
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'long', annotations: { note: 'first' } },
    spec: { suspend: true, activeDeadlineSeconds: 1, template: { spec: { restartPolicy: 'Never', containers } } },
  };
  const made = await raw('POST', jobs, JSON.stringify(job).replace('Seconds":1', `Seconds":${LONG}`));
  assert.equal(made.status, 201, made.text);
  await go(page, object({ kind: 'jobs.batch', ns, name: 'long', tab: 'yaml' }));
  await page.locator('.cm-line', { hasText: `activeDeadlineSeconds: ${LONG}` }).waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await replaceInEditor(page, 'note: first', 'note: second');
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByRole('button', { name: 'Write' }).click();
  await page.getByRole('button', { name: 'Edit' }).waitFor();
  const { text } = await raw('GET', `${jobs}/long`);
  assert.ok(text.includes('"note":"second"') && text.includes(LONG), text);
  await page.getByRole('button', { name: 'Edit' }).click();
  await replaceInEditor(page, 'activeDeadlineSeconds:', 'activeDeadlineSeconds: .inf');
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByText('is no number that Kubernetes knows').waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Edit' }).waitFor();
}

async function act(page, name) {
  await page.getByRole('button', { name, exact: true }).click();
  const dialog = page.getByRole('dialog', { name });
  await dialog.waitFor();
  return dialog;
}

/** Scale, restart, delete. */
async function acts(page) {
  await go(page, object({ kind: 'deployments.apps', ns, name: 'cart' }));
  await judge(page, 'a deployment');
  const scale = await act(page, 'Scale');
  await scale.getByRole('textbox', { name: /Replicas/ }).fill('3');
  await scale.getByText('kubectl scale').waitFor();
  await scale.getByRole('textbox', { name: /Replicas/ }).fill('0');
  await scale.getByText('All its pods end').waitFor();
  await scale.getByRole('textbox', { name: /Replicas/ }).fill('3');
  await judge(page, 'a dialog');
  await scale.getByRole('button', { name: 'Scale' }).click();
  await scale.waitFor({ state: 'detached' });
  const path = `apis/apps/v1/namespaces/${ns}/deployments/cart`;
  assert.equal((await ask(page, 'GET', path)).body.spec.replicas, 3);
  const restart = await act(page, 'Restart');
  await restart.getByRole('button', { name: 'Restart' }).click();
  await restart.waitFor({ state: 'detached' });
  const { annotations } = (await ask(page, 'GET', path)).body.spec.template.metadata;
  assert.ok(annotations['kubectl.kubernetes.io/restartedAt']);
  await make(page, 'api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: `${ns}-gone` } });
  const one = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'one' } };
  await make(page, `api/v1/namespaces/${ns}-gone/secrets`, one);
  await go(page, object({ kind: 'namespaces', name: `${ns}-gone` }));
  const remove = await act(page, 'Delete');
  await remove.getByText(/Now there: .*1 secrets/).waitFor();
  assert.ok(await remove.getByRole('button', { name: 'Delete' }).isDisabled(), 'its name is to be typed');
  await remove.getByRole('textbox', { name: /to go on/ }).fill(`${ns}-gone`);
  await remove.getByRole('button', { name: 'Delete' }).click();
  await remove.waitFor({ state: 'detached' });
  await page
    .getByText(/It is gone from the cluster|Terminating/)
    .first()
    .waitFor();
}

/** Cordon, and a drain that a disruption budget holds up once. */
async function nodes(page) {
  const [node] = (await ask(page, 'GET', 'api/v1/nodes')).body.items;
  const { name } = node.metadata;
  // Nothing would make this one again.
  await make(page, `api/v1/namespaces/${ns}/pods`, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'lonely' },
    spec: { nodeName: name, containers: [{ name: 'lonely', image: 'registry.example.com/lonely:1' }] },
  });
  await go(page, object({ kind: 'nodes', name }));
  await judge(page, 'a node');
  const cordon = await act(page, 'Cordon');
  await cordon.getByRole('button', { name: 'Cordon' }).click();
  await page.getByRole('button', { name: 'Uncordon' }).waitFor();
  // Budgets are not simulated: the first eviction gets the answer that one gives.
  let refusals = 0;
  await page.route(/\/eviction/, (route) => {
    refusals += 1;
    if (refusals > 1) return route.continue();
    const body = {
      kind: 'Status',
      code: 429,
      reason: 'TooManyRequests',
      message: 'Cannot evict pod as it would violate the pod’s disruption budget.',
    };
    return route.fulfill({ status: 429, contentType: 'application/json', body: JSON.stringify(body) });
  });
  const drain = await act(page, 'Drain');
  await drain.getByText(/would be evicted, \d+ would stay/).waitFor();
  await drain.getByText('stays: nothing would create it again').waitFor();
  await drain.getByRole('button', { name: 'Drain' }).click();
  await drain.getByText('disruption budget.').waitFor();
  await drain.getByText('Done:').waitFor({ timeout: 60_000 });
  await drain.getByText('stays: nothing would create it again').waitFor();
  const { metadata } = (await ask(page, 'GET', `api/v1/namespaces/${ns}/pods/lonely`)).body;
  assert.equal(metadata.deletionTimestamp, undefined, 'a pod that nothing makes again was evicted');
  await drain.getByText('Close', { exact: true }).click();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  const open = await act(page, 'Uncordon');
  await open.getByRole('button', { name: 'Uncordon' }).click();
  await page.getByRole('button', { name: 'Cordon', exact: true }).waitFor();
}

async function aPod(page) {
  for (const end = Date.now() + 30_000; Date.now() < end;) {
    const { items } = (await ask(page, 'GET', `api/v1/namespaces/${ns}/pods?labelSelector=app%3Dcart`)).body;
    const pod = items.find(({ status, metadata }) => status.phase === 'Running' && !metadata.deletionTimestamp);
    if (pod) return pod.metadata.name;
  }
  throw new Error('no pod runs');
}

/** Logs of several pods, filtered; and lines that would like to be more than text. */
async function logs(page) {
  await go(page, object({ kind: 'deployments.apps', ns, name: 'cart', tab: 'logs' }));
  const log = page.getByRole('log');
  await log.getByText('cart: ').first().waitFor();
  await log.getByText('side: ').first().waitFor();
  await judge(page, 'logs');
  await page.getByRole('textbox', { name: 'Only lines with' }).fill('/starting$/');
  await log.getByText('tick').first().waitFor({ state: 'detached' });
  await page.getByRole('checkbox', { name: 'Lines without it' }).check();
  await log.getByText('tick').first().waitFor();
  // To stop and to go on loses nothing and repeats nothing.
  await page.getByRole('checkbox', { name: 'Lines without it' }).uncheck();
  await page.getByRole('textbox', { name: 'Only lines with' }).fill('/ready to serve$/');
  await page.getByRole('checkbox', { name: 'Times' }).check();
  await log.getByText('ready to serve').first().waitFor();
  for (let times = 0; times < 2; times += 1) {
    await page.getByRole('checkbox', { name: 'Follow' }).uncheck();
    await page.getByRole('checkbox', { name: 'Follow' }).check();
  }
  const asksAgain = page.waitForRequest((request) => /\/log\?.*sinceTime=/.test(request.url()));
  await page.getByRole('checkbox', { name: 'Follow' }).uncheck();
  await page.getByRole('checkbox', { name: 'Follow' }).check();
  await asksAgain;
  const written = (await log.innerText()).split('\n').filter((line) => line.includes('ready to serve'));
  assert.ok(written.length > 0, 'lines are lost');
  assert.equal(new Set(written).size, written.length, `lines came twice: ${written.join('; ')}`);
  await page.getByRole('textbox', { name: 'Only lines with' }).fill('/(/');
  await log.getByText('tick').first().waitFor();
  await page.route(/\/log\?/, (route) =>
    route.fulfill({
      contentType: 'text/plain',
      body: `2026-01-01T00:00:00.000000000Z \u001b[31mERROR\u001b[0m ${HOSTILE}\u001b]52;c;aGVsbG8=\u0007 end\n2026-01-01T00:00:01.000000000Z ${'x'.repeat(100_000)}\n`,
    }),
  );
  await go(page, object({ kind: 'pods', ns, name: await aPod(page), tab: 'logs' }));
  await page.getByRole('checkbox', { name: 'Follow' }).uncheck();
  await log.getByText('ERROR <img src=x').first().waitFor();
  const text = await log.locator('[data-level="error"]').first().innerText();
  assert.match(text, /\\u202egnp\.exe end/);
  assert.ok((await log.innerText()).length < 80_000, 'a line is cut');
  await judge(page, 'hostile logs');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}

/** A terminal: what is typed comes back, sequences do nothing, a cluster that goes away is said. */
async function terminal(page) {
  await go(page, object({ kind: 'pods', ns, name: await aPod(page), tab: 'terminal', container: 'cart' }));
  await page.getByRole('button', { name: 'Open' }).waitFor();
  const title = await page.title();
  await page.getByRole('textbox', { name: 'Command' }).fill('evil');
  await page.getByRole('button', { name: 'Open' }).click();
  const screen = page.locator('.xterm-accessibility');
  await screen
    .getByText(/link\sred/)
    .first()
    .waitFor();
  await page.getByText('Ended:').waitFor();
  assert.equal(await page.title(), title, 'a program named the window');
  await page.getByRole('textbox', { name: 'Command' }).fill('cat');
  await page.getByRole('button', { name: 'Open anew' }).click();
  await page.getByText('Connected.').waitFor();
  await page.keyboard.type('hello there');
  await page.keyboard.press('Enter');
  await screen
    .getByText(/hello\sthere/)
    .first()
    .waitFor();
  await judge(page, 'a terminal');
  proxy.cut(true);
  await page.getByText('the connection to the cluster is lost').waitFor();
  proxy.cut(false);
}

/** Somebody who may look at the cluster in the console, to whom the cluster itself gave nothing. */
async function refusals(admin) {
  const who = `${ns}@example.com`;
  const secret = 'a long enough password 1!';
  const attributes = { name: 'Grace', email: who, password: secret };
  const query = (query, variables) => ask(admin, 'POST', '/gql', { query, variables }).then(({ body }) => body);
  const made = await query('mutation ($attributes: UserAttributes!) { createUser(attributes: $attributes) { id } }', {
    attributes,
  });
  assert.ok(made.data?.createUser, JSON.stringify(made));
  const found = await query('query ($handle: String!) { cluster(handle: $handle) { id } }', { handle: cluster });
  await query(
    'mutation ($add: [PolicyBindingAttributes], $clusterId: ID) { changeBindings(role: READ, add: $add, clusterId: $clusterId) }',
    {
      add: [{ userId: made.data.createUser.id }],
      clusterId: found.data.cluster.id,
    },
  );
  const page = await signIn(who, secret);
  await go(page, `${base}?kind=secrets&ns=${ns}`);
  await page.getByText('You may not list secrets').waitFor();
  await page.getByText(`The cluster knows you as ${who}`).waitFor();
  await page.getByText(`kubectl auth can-i list secrets -n ${ns}`).waitFor();
  await judge(page, 'a refused list');
  // With the right to look and no other, actions say why not.
  const looker = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'looker' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'looker' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: who }],
  };
  await make(admin, `apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/rolebindings`, looker);
  await make(admin, `apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/roles`, {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name: 'looker' },
    rules: [{ apiGroups: ['*'], resources: ['deployments', 'pods'], verbs: ['get', 'list', 'watch'] }],
  });
  const looked = `apis/apps/v1/namespaces/${ns}/deployments`;
  for (const path of [looked, `${looked}/cart`]) await answers(page, path, 200);
  await go(page, object({ kind: 'deployments.apps', ns, name: 'cart' }));
  await page.locator('button[aria-disabled]', { hasText: 'Restart' }).press('Enter');
  await page.getByText('Why can’t I?').waitFor();
  await page.getByText('kubectl auth can-i patch').waitFor();
  // A right that is taken away takes what it showed from the page.
  await go(page, `${base}?kind=deployments.apps&ns=${ns}`);
  await page.getByRole('table', { name: 'Deployment' }).getByRole('link', { name: 'cart' }).waitFor();
  const object_ = await page.context().newPage();
  await go(object_, object({ kind: 'deployments.apps', ns, name: 'cart' }));
  await object_.getByText('registry.example.com/cart:1').first().waitFor();
  await ask(admin, 'DELETE', `apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/rolebindings/looker`);
  await answers(page, looked, 403);
  await page.reload();
  await page.getByText('You may not list deployments.apps').waitFor();
  await object_.getByText('You may not get deployments.apps').waitFor({ timeout: 60_000 });
  assert.ok(
    !(await object_.locator('body').innerText()).includes('registry.example.com/cart:1'),
    'it still shows what it may not',
  );
  await make(admin, `apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/rolebindings`, looker);
  await page.context().close();
  await go(admin, `${base}/access?tab=who&ns=${ns}&verb=list&what=deployments.apps`);
  await admin.getByText(`User ${who}`).waitFor();
  await judge(admin, 'who can');
}

/** Every page, by a name. */
async function everyPage(page) {
  const [node] = (await ask(page, 'GET', 'api/v1/nodes')).body.items;
  const pod = what === 'read' ? undefined : await aPod(page);
  return Object.entries({
    pods: `${base}?ns=${ns}`,
    deployments: `${base}?kind=deployments.apps&wide=true`,
    'none-of-a-kind': `${base}?kind=ingresses.networking.k8s.io`,
    deployment: object({ kind: 'deployments.apps', ns, name: 'cart' }),
    configmap: object({ kind: 'configmaps', ns, name: 'cart' }),
    secret: object({ kind: 'secrets', ns, name: 'cart' }),
    service: object({ kind: 'services', ns, name: 'cart' }),
    yaml: object({ kind: 'deployments.apps', ns, name: 'cart', tab: 'yaml' }),
    events: object({ kind: 'deployments.apps', ns, name: 'cart', tab: 'events' }),
    ...(node && { node: object({ kind: 'nodes', name: node.metadata.name }) }),
    ...(pod !== undefined && {
      pod: object({ kind: 'pods', ns, name: pod }),
      logs: object({ kind: 'pods', ns, name: pod, tab: 'logs' }),
      terminal: object({ kind: 'pods', ns, name: pod, tab: 'terminal' }),
    }),
    'logs-of-many': `${base}/logs?ns=${ns}`,
    kinds: `${base}/kinds`,
    access: `${base}/access?ns=${ns}`,
    'who-can': `${base}/access?tab=who`,
  });
}

/** Each page in light, dark and on a phone; where there is a folder for pictures, also at another width. */
async function pages(page, folder, looks = []) {
  const all = await everyPage(page);
  for (const [width, height, colorScheme] of [
    [1280, 800, 'light'],
    [1280, 800, 'dark'],
    ...(folder ? [[1920, 1080, 'light']] : []),
    ...(folder ? [[1920, 1080, 'dark']] : []),
    [390, 844, 'light'],
  ]) {
    if (looks.length > 0 && !looks.includes(`${width}-${colorScheme}`)) continue;
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    for (const [name, path] of all) {
      await go(page, path);
      await judge(page, `${path} at ${width} px, ${colorScheme}`);
      if (folder) await page.screenshot({ path: join(folder, `${name}-${width}x${height}-${colorScheme}.png`) });
    }
  }
}

async function gallery(page) {
  const [folder, ...looks] = only;
  mkdirSync(folder, { recursive: true });
  await seed(page);
  await pages(page, folder, looks);
}

async function walk(page) {
  await seed(page);
  const look = (name) => (page) => pages(page, undefined, [name]);
  const looks = { light: look('1280-light'), dark: look('1280-dark'), phone: look('390-light') };
  const steps = { lists, tooOld, secrets, edits, numbers, acts, logs, terminal, refusals, nodes, ...looks };
  for (const [name, step] of Object.entries(steps)) {
    if (only.length > 0 && !only.includes(name)) continue;
    try {
      await step(page);
      seen.steps = [...(seen.steps ?? []), name];
    } catch (error) {
      proxy.cut(false);
      problems.push(`${name}: ${error.stack ?? error}`);
      console.error(`${name}: ${error}`);
      const { PICTURES } = process.env;
      if (PICTURES) await page.screenshot({ path: join(PICTURES, `kubernetes-${name}.png`) }).catch(() => undefined);
    }
  }
}

async function read(page) {
  await seed(page);
  for (const [name, step] of Object.entries({ lists, tooOld, secrets, edits, numbers, refusals, pages })) {
    await step(page).catch((error) => problems.push(`${name}: ${error.stack ?? error}`));
  }
}

/** Frames while the rows of all pods pass by, by wheel, as a hand does it. */
async function scroll(page) {
  const began = Date.now();
  await go(page, `${base}?kind=pods`);
  await page.getByRole('table', { name: 'Pod' }).getByRole('link').first().waitFor();
  seen.firstRowsMs = Date.now() - began;
  await page.getByText('watched, as of').waitFor({ timeout: 180_000 });
  seen.allRowsMs = Date.now() - began;
  seen.rows = Number(await page.getByRole('table', { name: 'Pod' }).getAttribute('aria-rowcount')) - 1;
  seen.heapMiB = Math.round((await page.evaluate(() => performance.memory.usedJSHeapSize)) / 2 ** 20);
  const typed = Date.now();
  await page.getByRole('searchbox', { name: 'Search pods' }).fill('-zzz');
  await page.waitForFunction(
    (rows) =>
      Number(
        document.querySelector('[aria-rowcount]').ariaRowCount ??
          document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount'),
      ) < rows,
    seen.rows,
  );
  seen.searchMs = Date.now() - typed;
  await page.getByRole('searchbox', { name: 'Search pods' }).fill('');
  await page.waitForFunction(
    (rows) => Number(document.querySelector('[aria-rowcount]').getAttribute('aria-rowcount')) > rows,
    seen.rows - 1,
  );
  const region = page.getByRole('region', { name: /scrolls/ });
  await region.hover();
  await page.evaluate(() => {
    globalThis.frames_ = [];
    let last = performance.now();
    const step = (now) => {
      globalThis.frames_.push(now - last);
      last = now;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  for (let at = 0; at < 400; at += 1) await page.mouse.wheel(0, at % 8 === 0 ? 6000 : 700);
  const frames = (await page.evaluate(() => globalThis.frames_)).slice(2).sort((a, b) => a - b);
  const part = (share) => Math.round(frames[Math.floor(frames.length * share)] * 10) / 10;
  Object.assign(seen, { frames: frames.length, p50: part(0.5), p95: part(0.95), p99: part(0.99) });
  seen.scrolledTo = await region.evaluate((element) => Math.round(element.scrollTop));
}

try {
  const page = await signIn(email, password);
  await { walk, read, gallery, scroll }[what](page);
  if (what !== 'scroll') await ask(page, 'DELETE', `api/v1/namespaces/${ns}`);
} catch (error) {
  problems.push(String(error.stack ?? error));
} finally {
  await browser.close();
  proxy.close();
}
console.log(JSON.stringify({ ...seen, problems }, null, 1));
process.exit(problems.length === 0 ? 0 : 1);
