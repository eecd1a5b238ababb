// Two stacks of which one depends on the other, from the wizard to their end, and what was seen of them as one JSON object: applied in order,
// their outputs in what a service renders, drift found and mended, destroyed in order. Console, agent, git, tools, cluster and browser are real.
//
//   stack_life.mjs PART WORLD   PART: see PARTS below. WORLD, as JSON: the console's url, its administrator's email and password, the git
//                               remote with the code in the folders "infra" and "app" and the templates of a service in "web", the handle of the
//                               cluster, a namespace of it in which the administrator may read, the tool (TERRAFORM, CUSTOM or ANSIBLE), the node that takes
//                               the Jobs as KEY=VALUE (or null) and the taint that it has (or null), the environment of "infra" as an object, and
//                               the file that "infra" makes, with the word "one" in it.
import { strict as assert } from 'node:assert';
import { readFileSync, writeFileSync } from 'node:fs';

import { forgive, judge, open, overhang, play, problems, settled } from './browser.mjs';

const [part, text = '{}'] = process.argv.slice(2);
const { url, email, password, remote, cluster, namespace, tool, node, taint, environment, made } = JSON.parse(text);
const seen = { steps: [] };

const isTool = tool === 'TERRAFORM';
const SERVICE = 'web';
/** What each stack runs where it has no tool of its own. */
const COMMANDS = {
  infra: {
    plan: 'sh all.sh plan',
    apply: 'sh all.sh apply',
    undo: 'sh all.sh destroy',
    look: 'sh all.sh look',
  },
  app: {
    plan: 'echo it would be made',
    apply: 'echo \'{"zones": ["a", "b"]}\' >"$PLURAL_OUTPUTS"',
    undo: 'echo it is undone',
    look: 'true',
  },
};
/** How drift of what "infra" made is told: a provider knows the fields, commands and a playbook do not. */
const DRIFTED = {
  TERRAFORM: { address: 'note_file.one', field: 'content: "one" → "theirs"' },
  CUSTOM: { address: 'made' },
  ANSIBLE: { address: 'localhost' },
}[tool];
/** Console, git, agent, cluster and tool each have a share in this. */
const PATIENCE = { timeout: 120_000 };

const dialog = (page) => page.getByRole('dialog');
const tab = (page, name) => page.getByRole('tab', { name, exact: true });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const stack = (name, search = '') => `${url}/stacks/${name}${search}`;
const service = (search = '') => `${url}/services/${cluster}/${SERVICE}${search}`;
const heading = (page, name) => page.getByRole('heading', { name, level: 1 }).waitFor();
/** The way to a run that waits, on the page of its stack. */
const waiting = (page) => page.getByRole('alert').getByRole('link', { name: /^Run #\d+$/ });
const content = () => readFileSync(made, 'utf8');

/** A page of somebody who is not signed in yet, and of runs and stacks that are gone: the console says so by its status. */
async function newPage() {
  const page = await open();
  for (const status of [401, 403, 404]) forgive(page, status);
  return page;
}

async function signsIn(page) {
  await page.goto(url);
  await page.waitForURL(/auth\/sign-in/);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await button(page, 'Sign in with a password').click();
  await heading(page, 'Fleet');
  await page.getByRole('complementary', { name: 'Tour' }).getByRole('button', { name: 'Not now' }).click();
}

async function chooses(page, label, name) {
  await page.getByLabel(label).first().click();
  await page.getByRole('option', { name, exact: true }).click();
}

const next = (page) => button(page, 'Next').click();

/** Makes the stack of the folder of its name, on the nodes that are for runs, with all that it needs from its first plan on. */
async function make(page, name, inputs) {
  await page.goto(`${url}/new-stack`);
  await heading(page, 'Create a stack');
  await settled(page);
  await page.getByLabel(/^Name/).fill(name);
  await chooses(page, /^Repository/, remote);
  await page.getByLabel(/^Folder/).fill(name);
  await next(page);
  if (tool === 'ANSIBLE') {
    await chooses(page, /^Tool \*/, 'Ansible');
    await page.getByLabel(/^Playbook that undoes it/).fill('undo.yaml');
  }
  if (tool === 'CUSTOM') {
    await chooses(page, /^Tool \*/, 'Own commands');
    await page.getByLabel(/^Commands that say what would change/).fill(COMMANDS[name].plan);
    await page.getByLabel(/^Commands that do it/).fill(COMMANDS[name].apply);
    await page.getByLabel(/^Commands that undo it/).fill(COMMANDS[name].undo);
    await page.getByLabel(/^Commands that look for drift/).fill(COMMANDS[name].look);
  }
  // Nobody pulls it: the tool is on this machine.
  await page.getByLabel(/^Image with the tool/).fill('example.org/tools');
  await next(page);
  await chooses(page, /^Cluster whose agent runs it/, cluster);
  if (node) await page.getByLabel(/^Labels of its node/).fill(node);
  if (taint) await page.getByLabel(/^Taints that it tolerates/).fill(taint);
  await next(page);
  await inputs(page);
  await judge(page, `what ${name} is given`);
  await next(page);
  await next(page);
  const shown = await page.locator('main').innerText();
  assert.ok(shown.includes(`plural cd stacks create ${name}`), shown);
  if (taint) assert.ok(shown.includes(`"key": "${taint}"`), shown);
  await button(page, 'Make the stack').click();
  await dialog(page).getByRole('button', { name: 'Make the stack' }).click();
  await heading(page, name);
}

/** What "infra" is given. */
async function fillEnvironment(page) {
  for (const [at, [name, value]] of Object.entries(environment).entries()) {
    await button(page, 'Add a variable').click();
    const row = page.getByRole('group', { name: `Variable ${at + 1}`, exact: true });
    await row.getByRole('textbox', { name: /^Variable/ }).fill(name);
    await row.getByRole('checkbox', { name: /^Its value is secret/ }).uncheck();
    await row.getByRole('textbox', { name: /^Its value/ }).fill(value);
  }
}

async function makes(page) {
  await make(page, 'infra', () => fillEnvironment(page));
  await make(page, 'app', async () => {
    await button(page, 'Add a dependency').click();
    const row = page.getByRole('group', { name: 'Dependency 1', exact: true });
    await row
      .getByLabel(/^Stack/)
      .first()
      .click();
    await page.getByRole('option', { name: 'infra', exact: true }).click();
    if (isTool) await row.getByRole('textbox', { name: /^Outputs that it takes/ }).fill('word');
  });
  const needs = page.getByText('Needs', { exact: true });
  await needs.waitFor();
}

/** The run that waits on the page of a stack, once it is there: with its plan. */
async function read(page, name) {
  await page.goto(stack(name));
  await waiting(page).first().waitFor(PATIENCE);
  await waiting(page).first().click();
  await heading(page, new RegExp(`^${name} #\\d+$`));
  await page.getByText('Its plan waits for approval').waitFor();
  await settled(page);
}

/** Agrees to the plan on this page: by its name, where it destroys something. */
async function approve(page, name) {
  await button(page, 'Approve').click();
  const typed = dialog(page).getByLabel(/^Type /);
  await dialog(page)
    .getByText(/^Digest of the plan/)
    .waitFor();
  if ((await typed.count()) > 0) await typed.fill(name);
  await dialog(page).getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog(page).waitFor({ state: 'detached' });
}

/** The run on this page has ended, and well. */
async function isOver(page) {
  await button(page, 'Run again').waitFor(PATIENCE);
  for (const why of ['Why it failed', 'Why it ended'])
    assert.equal(await page.getByText(why).count(), 0, `${why}: ${await page.locator('main').innerText()}`);
}

/** The one that depends on the other waits for it, and takes what that made. */
async function applies(page) {
  await read(page, 'infra');
  await page.goto(stack('app'));
  await page.getByText('Queued', { exact: true }).first().waitFor(PATIENCE);
  assert.equal(await waiting(page).count(), 0, 'it is planned before what it depends on is applied');
  await read(page, 'infra');
  await approve(page, 'infra');
  await isOver(page);
  assert.equal(content(), 'one');
  await read(page, 'app');
  await approve(page, 'app');
  await isOver(page);
}

/** One stack alone: a look in check mode changes nothing, and what was read is then done. */
async function plays(page) {
  await make(page, 'infra', () => fillEnvironment(page));
  await read(page, 'infra');
  assert.throws(content, { code: 'ENOENT' }, 'it was only planned');
  await approve(page, 'infra');
  await isOver(page);
  assert.equal(content(), 'one');
}

/** What it gives to others, and how they read it. */
async function sees(page) {
  await page.goto(stack('infra', '?tab=outputs'));
  await settled(page);
  const outputs = page.getByRole('table', { name: 'Outputs' });
  await outputs.getByText('hidden', { exact: true }).waitFor();
  await page.getByText(/imports\["infra"\]\["\w+"\]/).waitFor();
  await button(page, 'Show values that are not secret').click();
  await outputs.getByText('one', { exact: true }).waitFor();
  assert.equal(await page.getByText('s3cr3t').count(), 0, 'a secret output is shown unasked');
  await judge(page, 'outputs of a stack');
}

/** A service takes them: of the one stack by the form that makes it, of the other one on its page. */
async function imports(page) {
  await page.goto(`${url}/services?cluster=${cluster}`);
  await settled(page);
  await button(page, 'Create a service').click();
  const form = dialog(page);
  await form.getByLabel(/^Name \*/).fill(SERVICE);
  await form.getByLabel(/^Namespace/).fill(namespace);
  await form.getByLabel(/^Folder/).fill('web');
  await form.getByRole('button', { name: 'Add a stack' }).click();
  await form
    .getByRole('group', { name: 'Stack 1', exact: true })
    .getByLabel(/^Stack/)
    .first()
    .click();
  await page.getByRole('option', { name: 'infra', exact: true }).click();
  await form.getByText('--import infra').waitFor();
  await judge(page, 'a service that imports a stack');
  await form.getByRole('button', { name: 'Create a service' }).click();
  await heading(page, SERVICE);
  await page.goto(service('?tab=configuration'));
  const all = page.getByRole('table', { name: 'Imports' });
  await all.getByRole('link', { name: 'infra', exact: true }).waitFor();
  await all.getByText('word', { exact: true }).waitFor();
  await settled(page);
  await button(page, 'Import a stack').click();
  await dialog(page).getByText('--import infra --import app').waitFor();
  await dialog(page).getByRole('button', { name: 'Import a stack' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await all.getByRole('link', { name: 'app', exact: true }).waitFor();
  await judge(page, 'what a service imports');
}

/** What the stack gave is in what the service renders, and in the cluster. */
async function arrives(page) {
  await page.goto(service());
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor(PATIENCE);
  await page.getByText('List', { exact: true }).click();
  await button(page, 'ConfigMap given').click();
  for (const [name, label] of [
    ['Rendered', 'The rendered object'],
    ['Live', 'The live object'],
  ]) {
    await tab(dialog(page), name).click();
    const object = dialog(page).getByLabel(label);
    await object.getByText('word: one').first().waitFor(PATIENCE);
    await object.getByText('second: B').first().waitFor();
  }
  await judge(page, 'an output in an object');
  await page.keyboard.press('Escape');
}

/** A look that somebody asks for is a run; it leads to what it found. */
async function look(page) {
  await page.goto(stack('infra', '?tab=drift'));
  await settled(page);
  await button(page, 'Look now').click();
  await dialog(page).getByText('plural cd stacks drift infra --now').waitFor();
  await dialog(page).getByRole('button', { name: 'Look now' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await heading(page, /^infra #\d+$/);
  await isOver(page);
  await page.getByRole('link', { name: 'Drift of infra' }).click();
  await heading(page, 'infra');
  await settled(page);
}

async function isInSync(page) {
  await page.goto(stack('infra', '?tab=drift'));
  await page.getByText('Nobody has looked yet').waitFor();
  await look(page);
  await page.getByText('In sync', { exact: true }).waitFor();
  await page.getByText('Nothing drifted').waitFor();
  assert.equal(await button(page, 'Plan a run').count(), 0, 'there is nothing to mend');
}

/** Somebody changes what it made: what drifted, since when, and how. */
async function finds(page) {
  writeFileSync(made, 'theirs');
  await look(page);
  await page.getByText('Drifted', { exact: true }).waitFor();
  await page.getByText('1 resource').first().waitFor();
  const drifted = page.getByRole('table', { name: 'Resources that drifted' });
  const row = drifted.getByRole('row').filter({ hasText: DRIFTED.address });
  await row.getByText('Changed', { exact: true }).waitFor();
  const said = (await row.innerText()).replace(/\s+/g, ' ');
  assert.ok(said.includes(DRIFTED.field ?? DRIFTED.address), said);
  await row.getByRole('link', { name: /^#\d+$/ }).waitFor();
  await row.locator('time').first().waitFor();
  assert.equal(content(), 'theirs', 'it was only looked at');
  await page.getByRole('alert').getByText('drifted: something other than its tool changed what there is').waitFor();
  for (const [width, height, colorScheme] of [
    [1280, 800, 'dark'],
    [390, 844, 'light'],
  ]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    await settled(page);
    const name = `drift of a stack at ${width} px, ${colorScheme}`;
    await judge(page, name);
    const wide = await overhang(page);
    if (wide > 0) problems.push(`${name}: ${wide} px wider than the window`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${url}/stacks`);
  await page.getByText('drifted', { exact: true }).waitFor();
}

/** One button makes the run that brings it back; when that is applied, the console looks again by itself. */
async function mends(page) {
  await page.goto(stack('infra', '?tab=drift'));
  await settled(page);
  await button(page, 'Plan a run').click();
  await dialog(page).getByText('plural cd stacks trigger infra').waitFor();
  await dialog(page).getByRole('button', { name: 'Plan a run' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await page.getByText('Its plan waits for approval').waitFor(PATIENCE);
  await settled(page);
  assert.equal(content(), 'theirs', 'it was only planned');
  await approve(page, 'infra');
  await isOver(page);
  assert.equal(content(), 'one', 'it is as the code says');
  await page.goto(stack('infra', '?tab=drift'));
  // Nobody asks for this look, and nobody loads the page again.
  await page.getByText('In sync', { exact: true }).waitFor(PATIENCE);
  await page.getByText('Nothing drifted').waitFor();
}

/** A service that takes outputs of a stack goes before it. */
async function deletes(page) {
  await page.goto(service());
  await settled(page);
  await button(page, 'Delete').click();
  await dialog(page)
    .getByLabel(/^Type /)
    .fill(SERVICE);
  await dialog(page).getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await isGone(page, `${url}/services?cluster=${cluster}`, SERVICE);
}

/** Waits until the list of this address does not have this name. */
async function isGone(page, address, name) {
  for (const end = Date.now() + PATIENCE.timeout; ;) {
    await page.goto(address);
    await settled(page);
    // Rows are drawn a moment after their answer: what is not there is so beside other rows, or on a list that says that it is empty.
    const list = page
      .getByRole('table')
      .getByRole('cell')
      .or(page.getByText(/^No \w+ (yet|matches)$/));
    await list.first().waitFor();
    if ((await page.getByRole('link', { name, exact: true }).count()) === 0) return;
    assert.ok(Date.now() < end, `${name} stays`);
  }
}

/** What another stack depends on is not destroyed: the page says which goes first, and the console refuses. */
async function isRefused(page) {
  await page.goto(stack('infra'));
  await settled(page);
  await button(page, 'Destroy and delete').click();
  const first = dialog(page).getByRole('note').filter({ hasText: 'go first, in this order' });
  await first.getByRole('link', { name: 'app', exact: true }).waitFor();
  await dialog(page)
    .getByLabel(/^Type /)
    .fill('infra');
  await dialog(page).getByRole('button', { name: 'Destroy and delete' }).click();
  await dialog(page).getByRole('alert').getByText('in this order: app').waitFor();
  await judge(page, 'a destruction that is refused');
  await first.getByRole('link', { name: 'app', exact: true }).click();
  await heading(page, 'app');
}

/** Destroyed by its page: planned, read, approved; then it is not in the list any more. */
async function destroy(page, name) {
  await page.goto(stack(name));
  await settled(page);
  await button(page, 'Destroy and delete').click();
  await dialog(page)
    .getByLabel(/^Type /)
    .fill(name);
  await dialog(page).getByRole('button', { name: 'Destroy and delete' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await read(page, name);
  await button(page, 'Approve').click();
  await dialog(page).getByText('This run destroys everything that').waitFor();
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await approve(page, name);
  await isGone(page, `${url}/stacks`, name);
}

async function destroys(page) {
  await destroy(page, 'app');
  assert.equal(content(), 'one', 'the other one was not asked for');
  await undoes(page);
}

async function undoes(page) {
  await destroy(page, 'infra');
  assert.throws(content, { code: 'ENOENT' }, 'what it made is there');
  await page.getByText('No stacks yet').waitFor(PATIENCE);
}

const PARTS = {
  gives: { signsIn, makes, applies, sees, imports, arrives },
  plays: { signsIn, plays, finds, mends, undoes },
  ends: { signsIn, isInSync, finds, mends, deletes, isRefused, destroys },
};

await play('stack-life', PARTS, part, seen, newPage);
