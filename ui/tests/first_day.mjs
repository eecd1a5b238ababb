// The first day of a user, and what was seen of it as one JSON object: from the password that a new console tells once, to a service that
// was broken, understood and rolled back. Console, agent, git, shells and the browser are real processes.
//
//   first_day.mjs PART WORLD    PART: see PARTS below. WORLD, as JSON: the console's url, its administrator's email and password, the
//                               git remote, a namespace for the service, a folder to work in, and the agentNamespace (or null) where several share the
//                               cluster. `plural` and `kubectl` are on the PATH, KUBECONFIG names the cluster; somebody else plays its kubelet.
import { strict as assert } from 'node:assert';
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { forgive, judge, open, overhang, play, problems, settled } from './browser.mjs';
import { goesTo, opens, tabsTo, types } from './keys.mjs';

const [part, text = '{}'] = process.argv.slice(2);
const { url, email, password, remote, namespace, folder, agentNamespace } = JSON.parse(text);
const run = promisify(execFile);
const seen = { steps: [] };

const CLUSTER = 'first';
const IMAGE = 'registry.example.com/plural:1';
const READER = { name: 'Grace', email: 'grace@example.com', password: 'a long enough password 1!' };
/** Console, git, agent and cluster each have a share in this. */
const PATIENCE = { timeout: 90_000 };

const short = (sha) => sha.slice(0, 7);
const dialog = (page) => page.getByRole('dialog');
const tab = (page, name) => page.getByRole('tab', { name, exact: true });
const service = (search = '') => `${url}/services/${CLUSTER}/web${search}`;
const kubernetes = (search) => `${url}/clusters/${CLUSTER}/kubernetes${search}`;
const object = (search) => kubernetes(`/object?${new URLSearchParams({ ns: namespace, ...search })}`);

/** What a person pastes into a shell; answers what it said. */
async function shell(line) {
  const { stdout, stderr } = await run('sh', ['-ec', line], { cwd: folder, timeout: PATIENCE.timeout });
  return stdout + stderr;
}

/** What is in git: a Deployment and what it is configured with. */
const web = (greeting) => ({
  'app/web.yaml': `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "registry.example.com/web:1"}]
`,
  'app/settings.yaml': `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: ${greeting}}
`,
});
/** A name that no API server takes. */
const BAD_NAME = 'Not_A_Name';
const broken = { 'app/more.yaml': `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${BAD_NAME}}\n` };
const mended = { 'app/more.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n' };

const checkout = join(folder ?? '.', 'checkout');
async function git(...words) {
  const names = { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: email, GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: email };
  const env = { ...process.env, ...names, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1', GIT_TERMINAL_PROMPT: '0' };
  return (await run('git', ['-C', checkout, ...words], { env })).stdout.trim();
}

/** Commits these files and pushes them; answers the commit. */
async function push(message, files) {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(checkout, name)), { recursive: true });
    writeFileSync(join(checkout, name), content);
  }
  await git('add', '--all');
  await git('commit', '--quiet', '--message', message);
  await git('push', '--quiet', remote, 'HEAD:refs/heads/main');
  return git('rev-parse', 'HEAD');
}

async function beginsGit() {
  mkdirSync(checkout, { recursive: true });
  await git('init', '--quiet', '--initial-branch=main', '.');
  return push('Say hello', web('hello'));
}

/** A page of somebody who is not signed in yet: the console says so by its status, and some of what follows is refused on purpose. */
async function newPage(options) {
  const page = await open(options);
  for (const status of [401, 403, 404]) forgive(page, status);
  return page;
}

/** Signs in on the page that the console leads to. */
async function signsIn(page, who = { email, password }) {
  await page.goto(`${url}/services`);
  await page.waitForURL(/auth\/sign-in/);
  await judge(page, 'signing in');
  await page.getByLabel('E-mail address').fill(who.email);
  await page.getByLabel('Password', { exact: true }).fill(`not ${who.password}`);
  await page.getByRole('button', { name: 'Sign in with a password' }).click();
  await page.getByText('The e-mail address, the password or the code is wrong.').waitFor();
  await page.getByLabel('E-mail address').fill(who.email);
  await page.getByLabel('Password', { exact: true }).fill(who.password);
  await page.getByRole('button', { name: 'Sign in with a password' }).click();
  await page.getByRole('heading', { name: 'Services', level: 1 }).waitFor();
  assert.equal(new URL(page.url()).pathname, '/services', 'signing in leads elsewhere than where somebody wanted to go');
}

/** The one command that the wizard shows, run as it stands there. On a shared cluster its agent gets a namespace of its own. */
async function pastes(page) {
  const command = page.locator('pre', { hasText: 'plural cd clusters bootstrap' });
  await command.waitFor();
  const line = await command.innerText();
  assert.match(
    line,
    /^plural cd clusters bootstrap first [^]*<<'TOKEN'\nregister-[^\n]+\nTOKEN$/,
    'it is one command with its token',
  );
  await page.getByText('This page asks every two seconds.').waitFor();
  const shared = agentNamespace == null ? '' : ` --namespace ${agentNamespace}`;
  const said = await shell(line.replace(' --apply', `${shared} --apply`));
  assert.match(said, /cluster first registered/);
  assert.match(said, /plural-agent/);
}

async function arrives(page) {
  await page.getByText(/Its agent connects: version .+, Kubernetes v?1\./).waitFor(PATIENCE);
  await page.getByRole('link', { name: 'To the cluster' }).waitFor();
}

/** The wizard knows in which project the cluster will be. */
const hasProject = (page) =>
  page.waitForFunction(() => (document.querySelector('form input[aria-haspopup="listbox"]')?.value ?? '') !== '');

/** Connects a cluster by the wizard: from a fleet of none to the page of the cluster. */
async function connects(page) {
  await page.goto(url);
  await settled(page);
  await page.getByRole('complementary', { name: 'Tour' }).getByRole('button', { name: 'Not now' }).click();
  await page.getByRole('link', { name: 'Connect a cluster' }).first().click();
  await page.getByRole('heading', { name: 'Connect a cluster', level: 1 }).waitFor();
  await hasProject(page);
  await page.getByLabel(/^Handle/).fill('No Handle');
  await page.getByLabel(/^Image/).fill(IMAGE);
  await page.getByRole('button', { name: 'Create the command' }).click();
  await page.getByText('Small letters, digits and hyphens, at most 63.').waitFor();
  await page.getByLabel(/^Handle/).fill(CLUSTER);
  await page.getByRole('button', { name: 'Create the command' }).click();
  await pastes(page);
  await arrives(page);
  await judge(page, 'a cluster that arrived');
  await page.getByRole('link', { name: 'To the cluster' }).click();
  await page.getByRole('heading', { name: CLUSTER, level: 1 }).waitFor();
  await page.getByText('Connected', { exact: true }).first().waitFor();
}

/** Adds the git remote, creates a service of a folder in it, and watches it become healthy. */
async function deploys(page) {
  const sha = await beginsGit();
  await page.goto(`${url}/settings/repositories`);
  await settled(page);
  await page.getByRole('button', { name: 'Add a repository' }).click();
  await dialog(page)
    .getByLabel(/^Address/)
    .fill(remote);
  await dialog(page).getByRole('button', { name: 'Add a repository' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await page.goto(`${url}/services?cluster=${CLUSTER}`);
  await settled(page);
  await page.getByText('No service matches').waitFor();
  await page.getByRole('button', { name: 'Create a service' }).click();
  await dialog(page).getByRole('button', { name: 'Create a service' }).click();
  await dialog(page).getByText('This is needed.').first().waitFor();
  await dialog(page)
    .getByLabel(/^Name \*/)
    .fill('web');
  await dialog(page)
    .getByLabel(/^Namespace/)
    .fill(namespace);
  await dialog(page)
    .getByLabel(/^Folder/)
    .fill('app');
  await dialog(page).getByText(`plural cd services create ${CLUSTER}/web --namespace ${namespace}`).waitFor();
  await judge(page, 'creating a service');
  await dialog(page).getByRole('button', { name: 'Create a service' }).click();
  await stands(page, sha);
  await judge(page, 'the first service');
}

/** The page of the service says that it stands at this commit, with nothing wrong: that this revision was healthy, not one before it. */
async function stands(page, sha) {
  await page.getByRole('heading', { name: 'web', level: 1 }).waitFor();
  await tab(page, 'Revisions').click();
  const row = page
    .getByRole('table', { name: 'Revisions' })
    .getByRole('row')
    .filter({ hasText: short(sha) });
  await row.filter({ hasText: 'Current' }).filter({ hasNotText: 'never' }).first().waitFor(PATIENCE);
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor(PATIENCE);
  await page.getByText('Why it fails').waitFor({ state: 'detached' });
}

/** Another commit: what changed between the two stands there, field by field. */
async function changes(page) {
  await page.goto(service('?tab=revisions'));
  const sha = await push('Greet more warmly', web('good morning'));
  await stands(page, sha);
  const difference = page.getByRole('region', { name: 'Difference between two revisions' });
  await difference.getByText('Greet more warmly').first().waitFor();
  // What a sync records names the object, the field, and what it was and is.
  await difference.getByText('1 object').first().waitFor(PATIENCE);
  await difference
    .getByText(/ConfigMap .*settings/)
    .first()
    .waitFor(PATIENCE);
  await difference.getByText('/data/greeting').first().waitFor(PATIENCE);
  await difference.getByText('good morning').first().waitFor();
  await difference.getByText(/hello/).first().waitFor();
  await judge(page, 'the difference between two revisions');
}

/** A commit that breaks it: the page says what and why, without being asked. */
async function breaks(page) {
  await page.goto(service());
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor(PATIENCE);
  await push('Add more', broken);
  const why = page.getByRole('alert').filter({ hasText: 'Why it fails' });
  await why.getByText(BAD_NAME).first().waitFor(PATIENCE);
  seen.why = await why.innerText();
  await judge(page, 'a service that was broken');
  await tab(page, 'Revisions').click();
  const difference = page.getByRole('region', { name: 'Difference between two revisions' });
  await difference.getByText('Add more').first().waitFor();
  // The fleet says so first.
  await page.goto(url);
  const failing = page.getByRole('table', { name: 'Failing services' });
  await failing.getByText(BAD_NAME).first().waitFor();
  await failing.getByRole('link', { name: /web/ }).first().click();
  await page.getByRole('heading', { name: 'web', level: 1 }).waitFor();
}

/** Back to the last revision that was healthy; then a commit that mends it, taken up when the service is released. */
async function rollsBack(page) {
  await page.goto(service('?tab=revisions'));
  await settled(page);
  await page.getByRole('button', { name: 'Roll back', disabled: false }).first().click();
  await dialog(page).getByText(`plural cd services rollback ${CLUSTER}/web`).waitFor();
  await judge(page, 'rolling back');
  await dialog(page).getByRole('button', { name: 'Roll back' }).click();
  await page.getByRole('button', { name: 'Release' }).waitFor(PATIENCE);
  await page.getByText('Why it fails').waitFor({ state: 'detached', ...PATIENCE });
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor(PATIENCE);
  const sha = await push('Name more as Kubernetes wants it', mended);
  await page.getByRole('button', { name: 'Release' }).click();
  await dialog(page).getByRole('button', { name: 'Release' }).click();
  await stands(page, sha);
}

/** The audit log holds all of it: whoever did it, newest first, and nobody changed it since. */
async function audits(page) {
  const log = page.getByRole('table', { name: 'Audit log' });
  await page.goto(`${url}/audit`);
  await settled(page);
  await page.getByRole('searchbox', { name: 'Action, such as service.*' }).fill('service.*');
  await page.waitForURL(/action=service/);
  await log.getByText('repository.create').first().waitFor({ state: 'detached' });
  for (const action of ['service.release', 'service.rollback', 'service.create'])
    await log.getByText(action, { exact: true }).first().waitFor();
  const told = await log.innerText();
  assert.ok(told.indexOf('service.rollback') < told.indexOf('service.create'), 'newest first');
  assert.ok(told.includes(email), 'it names who did it');
  await page.getByRole('searchbox', { name: 'Action, such as service.*' }).fill('');
  await page.getByRole('searchbox', { name: 'Thing: name or id' }).fill(CLUSTER);
  await log.getByText('cluster.create', { exact: true }).first().waitFor();
  await judge(page, 'the audit log');
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('Nothing was edited, removed or reordered').waitFor();
  await page.keyboard.press('Escape');
}

/** The cluster itself decides what may be done in it: refused at first, with who asked for what; then its own administrator allows it. */
async function isLetIn(page) {
  await page.goto(kubernetes(`?kind=pods&ns=${namespace}`));
  await page.getByText('You may not list pods').waitFor();
  await page.getByText(`The cluster knows you as ${email}`).waitFor();
  await judge(page, 'a refusal by the cluster');
  await shell(`kubectl -n ${namespace} create rolebinding ada --clusterrole=cluster-admin --user=${email}`);
  const pod = page.getByRole('table', { name: 'Pod' }).getByRole('link', { name: /^web-/ });
  // An API server knows of a binding some time after it took it, and a refusal stays until somebody asks again.
  for (const end = Date.now() + PATIENCE.timeout; Date.now() < end;) {
    await page.reload();
    await pod.or(page.getByText('You may not list pods')).first().waitFor(PATIENCE);
    if ((await pod.count()) > 0) break;
  }
  await pod.first().waitFor(PATIENCE);
  seen.pod = await pod.first().innerText();
}

async function logs(page) {
  await page.goto(object({ kind: 'pods', name: seen.pod, tab: 'logs' }));
  const line = page.getByRole('log').locator('[data-index]');
  await line.first().waitFor(PATIENCE);
  await page.getByRole('textbox', { name: 'Only lines with' }).fill('no line says this');
  await page.getByText('No line matches.').waitFor();
  await page.getByRole('textbox', { name: 'Only lines with' }).fill('');
  await line.first().waitFor();
  await judge(page, 'logs of a pod');
}

/** A program that says again what it hears. */
async function exec(page) {
  await page.goto(object({ kind: 'pods', name: seen.pod, tab: 'terminal' }));
  await page.getByRole('textbox', { name: 'Command' }).fill('cat');
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByText('Connected.').waitFor(PATIENCE);
  await page.keyboard.type('is anybody there');
  await page.keyboard.press('Enter');
  await page
    .locator('.xterm-accessibility')
    .getByText(/is\sanybody\sthere/)
    .first()
    .waitFor(PATIENCE);
  await judge(page, 'a terminal in a pod');
}

/** An edit is tried at the server and compared before it is written; what git says comes back. */
async function edits(page) {
  await page.goto(object({ kind: 'configmaps', name: 'settings', tab: 'yaml' }));
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const line = page.locator('.cm-line', { hasText: 'greeting:' }).first();
  await line.click();
  await page.keyboard.press('End');
  await page.keyboard.press('Shift+Home');
  await page.keyboard.insertText('greeting: by hand');
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByText('What the server would make of it').waitFor();
  await page.locator('.cm-deletedChunk', { hasText: 'hello' }).waitFor();
  await page.locator('.cm-insertedLine, .cm-changedLine', { hasText: 'by hand' }).first().waitFor();
  await judge(page, 'an edit and its difference');
  const held = `kubectl -n ${namespace} get configmap settings -o 'jsonpath={.data.greeting}'`;
  assert.equal(await shell(held), 'hello', 'a dry run writes nothing');
  await page.getByRole('button', { name: 'Write' }).click();
  await page.getByText('settings is changed').waitFor();
  // The agent puts right what git says otherwise, and the page shows it.
  for (const end = Date.now() + PATIENCE.timeout; (await shell(held)) !== 'hello';)
    assert.ok(Date.now() < end, 'a change by hand stays');
  await page.locator('.cm-line', { hasText: 'greeting: hello' }).waitFor(PATIENCE);
}

/** Somebody who may look, and no more: made by the administrator's pages, told why not on their own. */
async function refuses(page) {
  await page.goto(`${url}/settings/users`);
  await settled(page);
  await page.getByRole('button', { name: 'Create a user' }).click();
  await dialog(page)
    .getByLabel(/^E-mail address/)
    .fill(READER.email);
  await dialog(page)
    .getByLabel(/^Name \*/)
    .fill(READER.name);
  await dialog(page).getByLabel('Password *', { exact: true }).fill(READER.password);
  await dialog(page).getByRole('button', { name: 'Create a user' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  const reader = await newPage();
  await signsIn(reader, READER);
  await reader.goto(service());
  await reader
    .getByText(/Cannot show service first\/web|There is no such service/)
    .first()
    .waitFor();
  await judge(reader, 'a service that one may not see');

  await page.goto(`${url}/clusters/${CLUSTER}?tab=settings`);
  await settled(page);
  await page.getByRole('button', { name: 'Give a role' }).click();
  await dialog(page)
    .getByLabel(/^User or group/)
    .first()
    .click();
  await page.getByRole('option', { name: READER.email }).click();
  await dialog(page).getByText(`plural cd access grant read --user ${READER.email}`).waitFor();
  await dialog(page).getByRole('button', { name: 'Give a role' }).click();
  await dialog(page).waitFor({ state: 'detached' });

  await reader.goto(service());
  await settled(reader);
  await reader.getByRole('heading', { name: 'web', level: 1 }).waitFor();
  // By key: a click that waits for nothing may come to where it stood.
  await reader.locator('button[aria-disabled]', { hasText: 'Pause' }).press('Enter');
  await reader.getByText('Why can’t I?').waitFor();
  await reader.getByText(`plural auth explain pause service/${CLUSTER}/web`).waitFor();
  await judge(reader, 'why an action is refused');
  await reader.close();
}

/** From signing in to a healthy service without a mouse. */
async function byKeys(page) {
  const sha = await beginsGit();
  await page.goto(`${url}/`);
  await page.waitForURL(/auth\/sign-in/);
  await types(page, /E-mail address/, email);
  await types(page, /^Password$/, password);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Fleet', level: 1 }).waitFor();
  await settled(page);
  await tabsTo(page, /^Not now$/);
  await page.keyboard.press('Enter');
  await page.getByRole('complementary', { name: 'Tour' }).waitFor({ state: 'detached' });

  await goesTo(page, 'Connect a cluster', 'Connect a cluster');
  await hasProject(page);
  await types(page, /^Handle/, CLUSTER);
  await types(page, /^Image/, IMAGE);
  await page.keyboard.press('Enter');
  await pastes(page);
  await arrives(page);

  await goesTo(page, 'Git repositories', 'Git repositories');
  await opens(page, /^Add a repository$/);
  await types(page, /^Address/, remote);
  await page.keyboard.press('Enter');
  await dialog(page).waitFor({ state: 'detached' });

  await goesTo(page, 'Services', 'Services');
  await opens(page, /^Create a service$/);
  await types(page, /^Name\b/, 'web');
  await types(page, /^Namespace/, namespace);
  await types(page, /^Folder/, 'app');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'web', level: 1 }).waitFor();
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor(PATIENCE);
  // A tab is chosen by the arrows, and what it shows is in the address.
  await tabsTo(page, /^Components$/);
  await page.keyboard.press('ArrowRight');
  await page.waitForURL(/tab=revisions/);
  await page.getByRole('table', { name: 'Revisions' }).getByText(short(sha)).waitFor();
  await opens(page, /^Pause$/);
  await dialog(page).getByText(`plural cd services pause ${CLUSTER}/web`).waitFor();
  await tabsTo(page, /^Cancel$/);
  await page.keyboard.press('Enter');
  // The focus is where it was before the dialog.
  await page.waitForFunction(() => document.activeElement?.textContent === 'Pause');
}

/** What was made on the first day, in the dark and on a phone. */
async function looks(page) {
  const paths = [
    '/',
    '/clusters',
    `/clusters/${CLUSTER}`,
    '/connect',
    '/services',
    `/services/${CLUSTER}/web`,
    `/services/${CLUSTER}/web?tab=revisions`,
    `/services/${CLUSTER}/web?tab=changes`,
    `/services/${CLUSTER}/web?tab=settings`,
    '/settings/repositories',
    '/audit',
  ];
  for (const [width, height, colorScheme] of [
    [1280, 800, 'dark'],
    [390, 844, 'light'],
    [390, 844, 'dark'],
  ]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    for (const path of paths) {
      const name = `${path} at ${width} px, ${colorScheme}`;
      await page.goto(url + path);
      await settled(page);
      await judge(page, name);
      const wide = await overhang(page);
      if (wide > 0) problems.push(`${name}: ${wide} px wider than the window`);
      const isDark = await page.evaluate(() => document.documentElement.dataset.mantineColorScheme === 'dark');
      assert.equal(isDark, colorScheme === 'dark', `${name}: not as the system wants it`);
    }
  }
  seen.pages = paths.length;
}

const PARTS = {
  day: { signsIn, connects, deploys, changes, breaks, rollsBack, audits },
  inside: { signsIn, connects, deploys, isLetIn, logs, exec, edits, refuses },
  keys: { byKeys },
  looks: { signsIn, connects, deploys, changes, breaks, looks },
};

await play('first-day', PARTS, part, seen, newPage);
