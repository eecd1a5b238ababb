// A pull request from the card of its automation to the git host, and what was seen of it as one JSON object: found, asked, told what is wrong,
// shown as a diff and as what it would do before it exists, confirmed, opened, listed. Console, sandbox and browser are real; in one part the
// git host is a stand-in.
//
//   pr_day.mjs PART WORLD    PART: see PARTS below. WORLD, as JSON: the console's url, its administrator's email and password, the automation,
//                            which asks for "name", "public", "host", "project" and "key", the repository, a secret that is answered, a value
//                            of the Secret that it brings, what its pull requests shall say, and the service that it changes, as
//                            CLUSTER / NAME, whose agent is away.
//                            The parts "made" and "upgrade" are at Gitea itself, and the service has an agent. Of the host its api, a token and
//                            an owner with one repository are told; of the automation its title, its message, the actions that it begins with, which
//                            ask for "name" alone, and those of its next version, which ask for "region" besides. Between the two parts
//                            somebody changes a file.
import { strict as assert } from 'node:assert';
import { setInterval } from 'node:timers/promises';

import { forgive, judge, open, overhang, play, problems, settled } from './browser.mjs';

const [part, text = '{}'] = process.argv.slice(2);
const world = JSON.parse(text);
const { url, email, password, automation, repository, secret, value, service } = world;
const seen = { steps: [] };

const PATIENCE = { timeout: 60_000 };
/** Console, git host, agent and cluster each have a share in this. */
const ALL = { timeout: 120_000 };
const CONNECTION = 'gitea';
const asked = [];
const heading = (page, name) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
/** One of a pull request is that of its automation until it is open. */
const headed = (page, name) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor(PATIENCE);
/** What is generated, as its page calls it. */
const instance = `${repository}: apps`;
const button = (page, name) => page.getByRole('button', { name, exact: true });
const sent = (mutation) =>
  asked.filter((body) => body.includes(`mutation ${mutation}(`)).map((body) => JSON.parse(body).variables);

async function chooses(page, label, name) {
  await page.getByLabel(label).first().click();
  await page.getByRole('option', { name, exact: true }).click();
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

/** By its name and by what it is for. */
async function finds(page) {
  await page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: 'Self-service' }).click();
  await heading(page, 'Self-service');
  await settled(page);
  await page.getByText('Puts an app into the fleet').waitFor();
  await judge(page, 'a catalogue');
  await button(page, 'Clusters').click();
  await page.getByText('No automations match').waitFor();
  await button(page, 'Services').click();
  await page.getByLabel('Search in automations').fill(automation);
  await page.getByRole('link', { name: new RegExp(automation) }).click();
  await heading(page, automation);
  await settled(page);
}

/** As it is typed, and what hangs on an answer only with that. */
async function isTold(page) {
  await button(page, 'Next').click();
  await page.getByText('This is needed.').first().waitFor();
  await page.getByLabel(/^name/).fill('Not a name');
  await page.getByText('Must match ^[a-z]+$.').waitFor();
  await judge(page, 'a bad answer');
  await page.getByLabel(/^name/).fill('default');
  await page.getByText('Must be new: a project has this name.').waitFor();
  assert.equal(await page.getByLabel(/^host/).count(), 0, 'a question is asked that hangs on another answer');
  await chooses(page, /^public/, 'true');
  await page.getByLabel(/^host/).fill('shop.example.com');
  await button(page, 'Next').click();
  await chooses(page, /^project/, 'default');
  await page.getByLabel(/^key/).first().fill(secret);
  await button(page, 'Next').click();
  // Of the Secret that comes with it, what nobody generates is needed.
  await button(page, 'Show what would change').click();
  await page.getByText('This is needed.').first().waitFor();
  await page.getByLabel(/^user/).first().fill(value);
  await page.getByText('Empty: generated.').waitFor();
  await judge(page, 'values of a Secret');
  await button(page, 'Show what would change').click();
  // The console has the last word: it leads back to the field.
  await page.waitForFunction(() => document.activeElement?.value === 'default', undefined, PATIENCE);
  await page.getByText('Must be new: a project has this name.').waitFor();
  await page.getByLabel(/^name/).fill('shop');
  await page.getByText('Must be new').waitFor({ state: 'detached' });
}

/** The diff, before there is a pull request. */
async function previews(page) {
  await button(page, 'Next').click();
  await button(page, 'Next').click();
  await button(page, 'Show what would change').click();
  await page.getByText(/^2 files would change$/).waitFor(PATIENCE);
  await page.getByText('Add shop', { exact: true }).waitFor();
  const made = page.getByRole('region', { name: 'Changes of apps/shop.yaml' });
  await made.getByText('+name: shop').waitFor();
  await made.getByText('+host: shop.example.com').waitFor();
  const changed = page.getByRole('region', { name: 'Changes of apps/web/values.yaml' });
  await changed.getByText('-replicas: 1').waitFor();
  await changed.getByText('+replicas: 2').waitFor();
  await judge(page, 'a review');
  assert.equal(sent('OpenPullRequest').length, 0, 'a pull request is opened unasked');
  const shown = await page.locator('main').innerText();
  assert.ok(shown.includes(`plural pr create ${automation}`) && shown.includes('--secret-set key'), shown);
  assert.ok(shown.includes('It brings the Secret') && shown.includes('--secret user'), shown);
  assert.ok(!shown.includes(secret) && !shown.includes(value), 'a secret is shown');
  assert.ok(!asked.some((body) => body.includes(value)), 'a value of a Secret is sent with a preview');
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state]),
  );
  assert.ok(!kept.includes(secret) && !kept.includes(value), 'a secret is kept in the browser');
  // Without the question that it hangs on, an answer is none.
  await button(page, 'Back').click();
  await button(page, 'Back').click();
  await button(page, 'Back').click();
  await chooses(page, /^public/, 'false');
  await button(page, 'Next').click();
  await button(page, 'Next').click();
  await button(page, 'Show what would change').click();
  await page.getByText(/^2 files would change$/).waitFor(PATIENCE);
  assert.ok(!Object.hasOwn(sent('PreviewPullRequest').at(-1).context, 'host'), 'what is not asked is answered');
}

/** What it would do, before there is a pull request. */
async function plans(page) {
  await button(page, 'Show what it would do').click();
  const found = page.getByRole('region', { name: 'What it would do to services' });
  await found.getByRole('link', { name: service, exact: true }).waitFor(PATIENCE);
  await found.getByText('Agent away', { exact: true }).first().waitFor();
  await found.getByText(/for an hour/).waitFor();
  await judge(page, 'what it would do');
  assert.equal(sent('PlanPullRequestPreview').length, 1, 'planned once');
  assert.equal(sent('OpenPullRequest').length, 0, 'a pull request is opened unasked');
  assert.ok(!(await page.locator('main').innerText()).includes(secret), 'a secret is shown');
  // Other answers are another preview.
  await button(page, 'Back').click();
  await button(page, 'Show what would change').click();
  await button(page, 'Show what it would do').waitFor(PATIENCE);
  await found.waitFor({ state: 'detached' });
}

async function opens(page) {
  await button(page, 'Open the pull request').click();
  await page.getByText('1 box above is not ticked.').waitFor();
  await page.getByLabel('I asked the team').check();
  await button(page, 'Open the pull request').click();
  await page.waitForURL(/settings\/pull-requests\/[0-9a-f-]{36}$/);
  await headed(page, 'Add shop');
  await page.getByRole('link', { name: 'Open it at the git host' }).waitFor(PATIENCE);
  await settled(page);
  await page.locator('[data-tone="busy"]').getByText('Open', { exact: true }).first().waitFor(PATIENCE);
  await judge(page, 'a pull request');
  assert.equal(sent('OpenPullRequest').length, 1, 'opened once');
  const [{ secrets, key }] = sent('OpenPullRequest');
  assert.deepEqual(secrets, { user: value });
  assert.match(key, /^[0-9a-f]{32}$/);
  await page.getByText('Waits for the merge').waitFor(PATIENCE);
}

/** By how it stands, by its repository, by its automation. */
async function lists(page) {
  await page.getByRole('link', { name: 'all that it opened' }).click();
  await heading(page, 'Pull requests');
  const rows = page.getByRole('table', { name: 'Pull requests' }).getByRole('link', { name: 'Add shop' });
  await rows.waitFor();
  assert.match(page.url(), new RegExp(`automation=${automation}`));
  await button(page, 'Merged').click();
  await rows.waitFor({ state: 'detached' });
  await button(page, 'Open').click();
  await rows.waitFor();
  await page.goto(`${url}/settings/pull-requests?repository=${encodeURIComponent('no/such')}`);
  await settled(page);
  assert.equal(await rows.count(), 0, 'a pull request of another repository');
  await page.getByRole('button', { name: 'Repository no/such: show all' }).click();
  await rows.waitFor();
  await page.getByRole('table', { name: 'Pull requests' }).getByRole('link', { name: repository }).click();
  await rows.waitFor();
}

/** What a form of settings asks, once it is known what it offers. */
async function begins(page, noun, title, label) {
  await page.goto(`${url}/settings/${noun}`);
  await heading(page, title);
  await settled(page);
  await button(page, label).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  return dialog;
}

async function picks(page, dialog, label, name) {
  await dialog.getByLabel(label).first().click();
  await page.getByRole('option', { name, exact: true }).click();
}

async function ends(dialog, label) {
  await dialog.getByRole('button', { name: label, exact: true }).click();
  await dialog.waitFor({ state: 'detached', ...PATIENCE });
}

/** The console to the git host. */
async function connects(page) {
  const dialog = await begins(page, 'scm-connections', 'Connections to git hosts', 'Add a connection');
  await dialog.getByLabel(/^Name/).fill(CONNECTION);
  await picks(page, dialog, /^Host/, 'Gitea or Forgejo');
  assert.equal(
    await dialog
      .getByLabel(/^Project/)
      .first()
      .inputValue(),
    'default',
    'its project is not offered',
  );
  await dialog.getByLabel(/^Repositories that it may touch/).fill(`${world.owner}/*`);
  await dialog
    .getByLabel(/^Token or password/)
    .first()
    .fill(world.token);
  await dialog.getByLabel(/^Address of the API/).fill(world.api);
  await ends(dialog, 'Add a connection');
  await page.getByRole('link', { name: CONNECTION, exact: true }).click();
  await heading(page, CONNECTION);
  await page.getByText('kept encrypted').first().waitFor();
  await settled(page);
  assert.ok(!(await page.locator('main').innerText()).includes(world.token), 'a token is shown');
}

/** The git host to the console: it tells of what is pushed. */
async function registers(page) {
  await button(page, 'Register webhook').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Repository/).fill(repository);
  await ends(dialog, 'Register webhook');
  await page.goto(`${url}/settings/scm-webhooks`);
  await heading(page, 'Webhooks of git hosts');
  await page
    .getByText(/\/ext\/v1\/webhooks\/gitea\//)
    .first()
    .waitFor();
}

/** Plain git over ssh is asked for a key, with all of its lines, in place of a token. */
async function signsInBySsh(page) {
  const name = `${CONNECTION}-ssh`;
  const dialog = await begins(page, 'scm-connections', 'Connections to git hosts', 'Add a connection');
  await dialog.getByLabel(/^Name/).fill(name);
  await picks(page, dialog, /^Host/, 'Git alone');
  await dialog
    .getByLabel(/^Token or password/)
    .first()
    .waitFor();
  await dialog.getByLabel(/^Address/).fill('ssh://git@git.example.com/srv');
  await dialog
    .getByLabel(/^Token or password/)
    .first()
    .waitFor({ state: 'detached' });
  assert.equal(await dialog.getByLabel(/^User name/).count(), 0, 'the user is in the address');
  const key = ['-----BEGIN OPENSSH PRIVATE KEY-----', 'b3BlbnNzaC1rZXk', '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
  await dialog.getByLabel(/^Private key for ssh/).fill(key);
  await dialog.getByLabel(/^Keys of the host/).fill('git.example.com ssh-ed25519 AAAA');
  await ends(dialog, 'Add a connection');
  await page.getByRole('link', { name, exact: true }).click();
  await heading(page, name);
  await settled(page);
  const shown = await page.locator('main').innerText();
  assert.ok(shown.includes('git.example.com ssh-ed25519 AAAA') && !shown.includes('b3BlbnNzaC1rZXk'), shown);
  const [{ attributes }] = sent('CreateScmConnection').slice(-1);
  assert.equal(attributes.sshPrivateKey, key.trim());
}

/** One of several, in a form. */
const one = (dialog, name) => dialog.getByRole('group', { name, exact: true });

/** What it asks and does, question by question and file by file. */
async function automates(page) {
  const dialog = await begins(page, 'pr-automations', 'Automations of pull requests', 'Add an automation');
  await dialog.getByLabel(/^Name/).fill(automation);
  await picks(page, dialog, /^Connection to the git host/, CONNECTION);
  await dialog.getByLabel(/^Repository that is changed/).fill(repository);
  await dialog.getByLabel(/^Title of its pull requests/).fill(world.title);
  await dialog.getByLabel(/^What they say/).fill(world.message);
  await asks(page, dialog, world.actions.configuration, 0);
  for (const [at, { source, destination }] of world.actions.creates.templates.entries()) {
    await dialog.getByRole('button', { name: 'Add a template', exact: true }).click();
    const template = one(dialog, `Template ${at + 1}`);
    await template.getByLabel(/^Template/).fill(source);
    // What is lacking is said where it is.
    await dialog.getByRole('button', { name: 'Add an automation', exact: true }).click();
    await template.getByText('This is needed.').waitFor();
    await template.getByLabel(/^Becomes/).fill(destination);
  }
  for (const [at, { file, yaml }] of world.actions.updates.yamlOverlays.entries()) {
    await dialog.getByRole('button', { name: 'Add an overlay', exact: true }).click();
    const overlay = one(dialog, `Overlay ${at + 1}`);
    await overlay.getByLabel(/^File/).fill(file);
    await overlay.getByLabel(/^YAML/).fill(yaml);
    await overlay.getByLabel('The YAML is a template').check();
  }
  await ends(dialog, 'Add an automation');
  await page.getByRole('link', { name: automation, exact: true }).click();
  await heading(page, automation);
  await page.getByRole('link', { name: 'Open a pull request', exact: true }).click();
  await page.waitForURL(/\/self-service\//);
  await heading(page, automation);
}

/** Questions for a text, after those that are there. */
async function asks(page, dialog, questions, there) {
  for (const [at, { name }] of questions.slice(there).entries()) {
    await dialog.getByRole('button', { name: 'Add a question', exact: true }).click();
    await one(dialog, `Question ${there + at + 1}`)
      .getByLabel(/^Name/)
      .fill(name);
  }
}

/** The form of an automation, as it is now. */
async function changes(page) {
  await page.goto(`${url}/settings/pr-automations/${automation}`);
  await heading(page, automation);
  await settled(page);
  await button(page, 'Change').click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  return dialog;
}

/** What is there stands in the form; of that one text is changed, and a window set. What else there is, is compared by who started this. */
async function adapts(page) {
  let dialog = await changes(page);
  const begins = [
    [/^Repository that is changed/, repository],
    [/^Title of its pull requests/, 'Add {{ context.name }}'],
    [/^What they say/, 'Adds {{ context.name }}.'],
    [/^What it is for/, 'Puts an app into the fleet'],
    [/^Branches of pull requests begin with/, 'plural/app'],
    [/^Name of the Secret/, '{{ context.name }}-db'],
  ];
  for (const [label, value] of begins) assert.equal(await dialog.getByLabel(label).inputValue(), value);
  for (const told of [
    'host: a text, where public is so',
    'key: a secret text, or nothing',
    'password, generated',
    'I asked the team',
  ])
    await dialog.getByText(told, { exact: true }).waitFor();
  await one(dialog, 'Question 1').getByRole('button', { name: 'Open question 1' }).click();
  assert.equal(
    await one(dialog, 'Question 1')
      .getByLabel(/^Pattern/)
      .inputValue(),
    '^[a-z]+$',
  );
  await judge(page, 'the form of an automation', '.mantine-Modal-content');
  // Saved as it is, nothing changes.
  await ends(dialog, 'Change');
  assert.deepEqual(sent('UpdatePrAutomation').at(-1).attributes, {});

  dialog = await changes(page);
  await dialog.getByLabel(/^What they say/).fill(world.says);
  await dialog.getByRole('button', { name: 'Add a window' }).click();
  const window = one(dialog, 'Window 1');
  await window.getByLabel('Another schedule, in cron’s five fields').check();
  const opens = new Date(Date.now() + 30 * 86_400_000);
  const schedule = `${opens.getUTCMinutes()} ${opens.getUTCHours()} ${opens.getUTCDate()} ${opens.getUTCMonth() + 1} *`;
  await window.getByLabel(/^Schedule/).fill(`61 ${schedule}`);
  await window.getByText('Must have five fields').waitFor();
  await window.getByLabel(/^Schedule/).fill(schedule.replace(/^\d+/, '61'));
  // That is told by the console.
  await dialog.getByText(/^Window 1: schedule: /).waitFor();
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await dialog.getByRole('alert').waitFor();
  await window.getByLabel(/^Schedule/).fill(schedule);
  await window.getByLabel(/^Stays open for/).fill('1h 30m');
  await window.getByLabel(/^Time zone/).fill('UTC');
  await dialog.getByText(/^The next merge goes through in \d+ d/).waitFor();
  await ends(dialog, 'Change');
  assert.deepEqual(sent('UpdatePrAutomation').at(-1).attributes, {
    message: world.says,
    mergeWindows: [{ kind: 'ALLOW', schedule, duration: 5400, timeZone: 'UTC' }],
  });
  await page.getByText(/^The next merge goes through in \d+ d/).waitFor();
  await settled(page);
  await judge(page, 'an automation with a merge window');
}

/** The window of its automation holds its merge; without it, the console merges it. */
async function holds(page) {
  await page.getByRole('link', { name: 'Add shop' }).first().click();
  await heading(page, 'Add shop');
  await button(page, 'Refresh').click();
  const dialog = page.getByRole('dialog');
  await ends(dialog, 'Refresh');
  await button(page, 'Copy the newest commit').waitFor(PATIENCE);
  await button(page, 'Merge in window').click();
  await dialog.getByText(/when the next of its windows opens/).waitFor();
  await ends(dialog, 'Merge in window');
  await page.getByText('Waits to be merged', { exact: true }).waitFor(PATIENCE);
  await settled(page);
  await judge(page, 'a merge that waits for its window');
  assert.equal(await page.locator('[data-tone="good"]').getByText('Merged', { exact: true }).count(), 0, 'it is merged');
  await button(page, 'Merge windows').click();
  await dialog.getByText(/^The next merge goes through in \d+ d/).waitFor();
  await dialog.getByRole('button', { name: 'Remove window 1' }).click();
  await ends(dialog, 'Merge windows');
  // A host that still looks whether it can be merged is asked again, each time later.
  const merged = page.locator('[data-tone="good"]').getByText('Merged', { exact: true }).first();
  await merged.waitFor({ ...PATIENCE, timeout: 3 * PATIENCE.timeout });
}

/** What the agent of its cluster says of the service: how many objects are made and changed, and some words of them. */
async function isPlanned(page, counts, words) {
  const found = page.getByRole('region', { name: 'What it would do to services' }).first();
  const row = found.getByRole('row').filter({ has: page.getByRole('link', { name: service, exact: true }) });
  await row.getByRole('button', { name: 'Show the objects' }).click(ALL);
  assert.deepEqual(await row.locator('[data-number]').allTextContents(), [...counts, '0', '0']);
  for (const word of words) await row.getByText(word, { exact: true }).first().waitFor(PATIENCE);
}
const created = ['create', '/data/port', '"80"', 'change', '/data/app', '"shop"'];
const changed = ['change', '/data/port', '"8080"', '/data/region', '"eu"'];

/** By its own wizard, which asks for a name alone: its difference, and what that does to a cluster, before there is a pull request. */
async function creates(page) {
  await page.getByLabel(/^name/).fill('shop');
  await button(page, 'Show what would change').click();
  await page.getByText(/^2 files would change$/).waitFor(PATIENCE);
  const made = page.getByRole('region', { name: 'Changes of apps/shop.yaml' });
  for (const line of ['+  name: shop', '+  port: "80"']) await made.getByText(line, { exact: true }).waitFor();
  await page
    .getByRole('region', { name: 'Changes of apps/index.yaml' })
    .getByText(/^\+\s+app: "?shop"?$/)
    .waitFor();
  await button(page, 'Show what it would do').click();
  await isPlanned(page, ['1', '1'], created);
  assert.deepEqual(await atHost('/pulls?state=all'), [], 'a pull request is opened unasked');
  await button(page, 'Open the pull request').click();
  await page.waitForURL(/settings\/pull-requests\/[0-9a-f-]{36}$/);
  await headed(page, 'Add shop');
}

/** What the git host says of the repository. */
async function atHost(path) {
  const answer = await fetch(`${world.api}/repos/${repository}${path}`, { headers: { authorization: `token ${world.token}` } });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

/** On its page once its commit is planned, and at the git host: there as numbers, in one comment, whatever becomes of it. */
async function follows(page, counts, words) {
  const link = page.getByRole('link', { name: 'Open it at the git host' });
  await link.waitFor(PATIENCE);
  await isPlanned(page, counts, words);
  const number = (await link.getAttribute('href')).split('/').at(-1);
  const says = `| ${service.split(' / ')[0]} | 1 | ${counts.join(' | ')} | 0 | 0 |`;
  const deadline = Date.now() + ALL.timeout;
  for await (const _ of setInterval(250)) {
    const all = await atHost(`/issues/${number}/comments`);
    assert.ok(all.length < 2, 'there is more than one comment');
    if (all.some(({ body }) => body.includes(says))) {
      assert.ok(!all[0].body.includes('"80'), 'a value is told at the git host');
      break;
    }
    assert.ok(Date.now() < deadline, `no comment says ${says}: ${JSON.stringify(all)}`);
  }
}
async function isFollowed(page) {
  await follows(page, ['1', '1'], created);
  // Its text says which service it is about.
  await page.getByRole('link', { name: service.replace(' / ', '/'), exact: true }).waitFor(PATIENCE);
  await settled(page);
  await judge(page, 'a pull request and what it would do');
}
const isFollowedAgain = (page) => follows(page, ['0', '1'], changed);

/** Merged, it comes to the service: that stands at the newest commit, with nothing wrong. */
async function moves(page) {
  const { commit } = await atHost('/branches/main');
  const [cluster, name] = service.split(' / ');
  await page.goto(`${url}/services/${cluster}/${name}?tab=revisions`);
  await heading(page, name);
  const row = page
    .getByRole('table', { name: 'Revisions' })
    .getByRole('row')
    .filter({ hasText: commit.id.slice(0, 7) });
  await row.filter({ hasText: 'Current' }).filter({ hasNotText: 'never' }).first().waitFor(ALL);
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor(ALL);
}

/** The automation, which has a next version with that: its form begins with the one before. */
async function edits(page) {
  const dialog = await changes(page);
  assert.equal(await dialog.getByLabel(/^What they say/).inputValue(), world.message);
  await dialog.getByText('name: a text', { exact: true }).waitFor();
  await asks(page, dialog, world.next.configuration, 1);
  const template = one(dialog, 'Template 1');
  await template.getByRole('button', { name: 'Open template 1' }).click();
  const [before] = world.actions.creates.templates;
  const [after] = world.next.creates.templates;
  assert.equal(await template.getByLabel(/^Template/).inputValue(), before.source);
  assert.equal(await template.getByLabel(/^Becomes/).inputValue(), after.destination);
  await template.getByLabel(/^Template/).fill(after.source);
  await ends(dialog, 'Change');
}

/** In the web console, at the commit that it read. A host that still looks whether it can be merged is asked again. */
async function merges(page) {
  await page.getByRole('link', { name: 'Open it at the git host' }).waitFor(PATIENCE);
  await button(page, 'Refresh').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Refresh', exact: true }).click();
  await dialog.waitFor({ state: 'detached', ...PATIENCE });
  await button(page, 'Copy the newest commit').waitFor(PATIENCE);
  for (const status of [409, 503]) forgive(page, status);
  await button(page, 'Merge').click();
  await dialog.waitFor(PATIENCE);
  const merged = page.locator('[data-tone="good"]').getByText('Merged', { exact: true }).first();
  for (let turn = 0; turn < 100 && (await dialog.count()) > 0; turn += 1) {
    // What was answered before may still stand there when it is asked again.
    const isAnswer = (answer) => answer.request().postData()?.includes('mutation MergePullRequest(') === true;
    await Promise.all([
      page.waitForResponse(isAnswer, PATIENCE),
      dialog.getByRole('button', { name: 'Merge', exact: true }).click(),
    ]);
    await Promise.race([dialog.waitFor({ state: 'detached', ...PATIENCE }), dialog.getByRole('alert').waitFor(PATIENCE)]);
  }
  await merged.waitFor(PATIENCE);
}

/** In the list, on its own page, and by its pull request. */
async function isOutdated(page) {
  await page.goto(`${url}/settings/pr-instances?state=OUTDATED`);
  await heading(page, 'Generated by pull requests');
  const row = page.getByRole('table', { name: 'Generated by pull requests' });
  await row.getByRole('link', { name: instance, exact: true }).waitFor(PATIENCE);
  await row.getByText('1 of 2', { exact: true }).waitFor();
  await judge(page, 'a list of instances');
  await row.getByRole('link', { name: instance, exact: true }).click();
  await heading(page, instance);
  await page.getByText('Its automation has another version now').waitFor();
  await page.getByRole('link', { name: 'Add shop' }).click();
  await heading(page, 'Add shop');
  await page.getByRole('link', { name: instance, exact: true }).click();
  await heading(page, instance);
}

/** What people did since, without the form being asked. */
async function drifts(page) {
  await button(page, 'Compare with what was generated').click();
  await page.getByText(/^1 file of 2 differs$/).waitFor(PATIENCE);
  const changed = page.getByRole('region', { name: 'Changes of apps/shop.yaml' });
  await changed.getByText('-  replicas: "1"', { exact: true }).waitFor();
  await changed.getByText('+  replicas: "3"', { exact: true }).waitFor();
  await settled(page);
  await judge(page, 'an instance');
}

/** With the answers of before and one to a new question; the merge is seen before there is a pull request. */
async function upgrades(page) {
  await page.getByRole('link', { name: 'Upgrade', exact: true }).click();
  await heading(page, `Upgrade ${instance}`);
  await settled(page);
  assert.equal(await page.getByLabel(/^name/).inputValue(), 'shop', 'an answer of before is not there');
  await button(page, 'Show what would change').click();
  await page.getByText('This is needed.').waitFor();
  await judge(page, 'the form of an upgrade');
  await page.getByLabel(/^region/).fill('eu');
  await button(page, 'Show what would change').click();
  await page.getByText(/^1 file would change$/).waitFor(PATIENCE);
  const shown = page.getByRole('region', { name: 'Changes of apps/shop.yaml' });
  for (const line of ['-  port: "80"', '+  port: "8080"', '+  region: eu'])
    await shown.getByText(line, { exact: true }).waitFor();
  assert.equal(await shown.getByText('-  replicas: "3"', { exact: true }).count(), 0, 'what people changed is lost');
  await judge(page, 'the review of an upgrade');
  assert.deepEqual(sent('PreviewPrInstanceUpgrade').at(-1).context, { region: 'eu' }, 'what did not change is sent');
  await button(page, 'Show what it would do').click();
  await isPlanned(page, ['0', '1'], changed);
  assert.deepEqual(sent('PlanPrInstanceUpgrade').at(-1).context, { region: 'eu' }, 'another upgrade is planned');
  assert.equal(sent('UpgradePrInstance').length, 0, 'a pull request is opened unasked');
  await button(page, 'Open the pull request').click();
  await page.waitForURL(/settings\/pull-requests\/[0-9a-f-]{36}$/);
  await headed(page, 'Upgrade: Add shop');
}

/** Once that is merged; in the dark, wide, and on a phone. */
async function isNewest(page) {
  await page.getByRole('link', { name: instance, exact: true }).click();
  await heading(page, instance);
  await page.locator('[data-tone="good"]').getByText('There', { exact: true }).first().waitFor(PATIENCE);
  await page.getByText('Its automation has another version now').waitFor({ state: 'detached' });
  const path = new URL(page.url()).pathname;
  await looksAt(page, [
    '/settings/pr-instances',
    path,
    path.replace('/settings/pr-instances', '/upgrades'),
    `/self-service/${automation}/upgrade`,
  ]);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(url + path);
  await heading(page, instance);
}

/** After a look at what goes, and what is left of it. */
async function takesAway(page) {
  await button(page, 'Uninstall').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(/^1 file would change$/).waitFor(PATIENCE);
  await dialog.getByText(/apps\/shop\.yaml: it was changed since/).waitFor();
  await dialog.getByRole('button', { name: 'Show what it would do', exact: true }).click();
  await isPlanned(page, ['0', '1'], ['change']);
  assert.equal(sent('UninstallPrInstance').length, 0, 'a pull request is opened unasked');
  await dialog.getByLabel(/^Type/).fill(repository);
  await dialog.getByRole('button', { name: 'Uninstall', exact: true }).click();
  // The page says so at once, and is called as its pull request once that has a title.
  await page.getByRole('alert').getByRole('link', { name: 'Uninstall: Add shop', exact: true }).click(PATIENCE);
  await headed(page, 'Uninstall: Add shop');
}

/** What was made, in the dark, wide, and on a phone. */
async function looks(page) {
  await looksAt(page, ['/self-service', `/self-service/${automation}`, '/settings/pull-requests']);
}

async function looksAt(page, paths) {
  for (const [width, height, colorScheme] of [
    [1920, 1080, 'dark'],
    [390, 844, 'light'],
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
    }
  }
}

const PARTS = {
  day: { signsIn, adapts, finds, isTold, previews, plans, opens, lists, holds, looks },
  made: { signsIn, connects, registers, signsInBySsh, automates, creates, isFollowed, merges, moves },
  upgrade: { signsIn, edits, isOutdated, drifts, upgrades, isFollowedAgain, merges, isNewest, takesAway, moves },
};

/** A page of somebody who is not signed in yet, and of answers that the console refuses: it says so by its status. */
async function newPage() {
  const page = await open();
  for (const status of [401, 422]) forgive(page, status);
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  return page;
}

await play('pr-day', PARTS, part, seen, newPage);
