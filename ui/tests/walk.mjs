// Walks through the web console as a person does, and says what it saw as one JSON object.
//
//   walk.mjs world PART     pages with 0, 3 and 3 000 rows of a made world: axe, CSP, hostile names; keys, faults
//   walk.mjs console LINK   a real console: signs in by the demo's link, reads why a service fails, pauses another, signs out
import { strict as assert } from 'node:assert';

import { automationForm } from './automation_form.mjs';
import { browser, forgive, judge, numbers, open, problems, settled } from './browser.mjs';
import { faults } from './faults.mjs';
import { missing, walked } from './gallery/pages.mjs';
import { instance } from './instance.mjs';
import { HEAD } from './nouns.mjs';
import { DIGEST } from './stacks.mjs';
import { serve } from './world.mjs';

/** Of stacks, of which there is one at least. */
const OF_STACKS = [
  '/new-stack',
  '/stacks/network-0',
  ...['runs', 'drift', 'state', 'outputs', 'commands', 'settings'].map((tab) => `/stacks/network-0?tab=${tab}`),
  '/stacks/network-0?tab=state&view=list',
  '/stacks/network-0?tab=state&at=aws_vpc.main',
  '/stacks/network-0?tab=state&at=module.subnets.aws_subnet.private',
  '/stacks/database-1?tab=state',
  '/stacks/database-1',
  '/stacks/network-0/runs/st0-r12',
  '/stacks/network-0/runs/st0-r12?tab=plan&view=text',
  '/stacks/network-0/runs/st0-r12?tab=made',
  '/stacks/database-1/runs/st1-r12?tab=steps',
  '/stacks/dns-2/runs/st2-r12',
];

const isSetting = (path) => path.startsWith('/settings/');

/** What is walked together: each part takes a minute or two on an idle machine. */
const PARTS = {
  none: { rows: 0, paths: () => walked.each },
  few: { rows: 3, paths: () => walked.each },
  tabs: { rows: 3, paths: (_, colorScheme) => (colorScheme === 'light' ? walked.once.filter((path) => !isSetting(path)) : []) },
  settings: { rows: 3, paths: (_, colorScheme) => (colorScheme === 'light' ? walked.once.filter(isSetting) : []) },
  many: { rows: 3000, paths: () => walked.each },
  phone: { rows: 3000, paths: () => [], narrow: walked.narrow },
  stacks: { rows: 3000, paths: () => OF_STACKS, narrow: OF_STACKS },
  hands: { rows: 3000, paths: () => [] },
  faults: { rows: 3000, paths: () => [] },
};

async function made(part) {
  assert(Object.hasOwn(PARTS, part), `one of ${Object.keys(PARTS).join(', ')}`);
  const { rows, paths, narrow = [] } = PARTS[part];
  for (const route of missing()) problems.push(`${route} has no page in tests/gallery/pages.mjs`);
  const console_ = await serve(rows);
  let pages = 0;
  for (const [width, colorScheme] of [
    [1280, 'light'],
    [1280, 'dark'],
    [390, 'light'],
  ]) {
    const page = await open({ viewport: { width, height: 844 }, colorScheme });
    for (const path of width === 390 ? narrow : paths(width, colorScheme)) {
      await page.goto(console_.url + path);
      await settled(page);
      const name = `${path} with ${rows} rows, ${width} px, ${colorScheme}`;
      await judge(page, name);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (wide > 0) problems.push(`${name}: ${wide} px wider than the window`);
      pages += 1;
    }
    await page.close();
  }
  if (part === 'hands') {
    await keys(console_.url);
    await orders(console_.url);
    await objects(console_.url);
    await told(console_.url);
    await selfService(console_.url);
    await pulls(console_.url);
    await automationForm(console_.url);
    await instance(console_.url);
  }
  if (part === 'stacks') {
    await runs(console_.url);
    await forms(console_.url);
    await states(console_.url);
  }
  if (part === 'faults') await faults(console_.url, { open, settled, judge, forgive });
  console_.close();
  return { pages };
}

/** By keyboard only: search, move, open; the palette; why an action is refused. */
async function keys(url) {
  const page = await open();
  await page.goto(`${url}/services`);
  await settled(page);
  assert.ok((await page.getByRole('row').count()) < 100, 'all rows are drawn, not only those in sight');
  // A name that is markup is text, and what would reorder it is visible.
  await page.getByText('<img src=x onerror=alert(1)>\\u202egnp.exe').first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('web-20');
  await page.waitForURL(/q=web-20/);
  await page.getByRole('link', { name: 'web-200', exact: true }).waitFor();
  await page.getByRole('region', { name: /Services/ }).focus();
  await page.keyboard.press('j');
  await page.waitForFunction(() => document.activeElement?.textContent === 'web-20');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'web-20', level: 1 }).waitFor();
  await page.getByText('ImagePullBackOff').first().waitFor();
  await page.getByRole('button', { name: 'Pause' }).press('Enter');
  await page.getByText('you may read it, not change it').waitFor();
  await judge(page, 'why an action is refused');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Go to/ }).fill('us-prod-10');
  await page
    .getByRole('option', { name: /us-prod-10/ })
    .first()
    .waitFor();
  await judge(page, 'the palette');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'us-prod-10', level: 1 }).waitFor();
  // What is shown stays when the console does not answer any more, and the page says so.
  forgive(page);
  await page.route('**/gql', (route) => route.abort());
  await page.getByRole('link', { name: 'Clusters' }).first().click();
  await page.getByText('The console cannot be reached').waitFor();
  await judge(page, 'a console that cannot be reached');
  await page.close();
}

/** Tables in another order, and what a choice beside them shows: both in the address. */
async function orders(url) {
  const page = await open();
  await page.goto(`${url}/services`);
  await settled(page);
  const header = page.getByRole('columnheader', { name: 'Service', exact: true });
  for (const [sort, told] of [
    ['name', 'ascending'],
    ['-name', 'descending'],
  ]) {
    await header.getByRole('button').click();
    await page.waitForURL((at) => at.searchParams.get('sort') === sort);
    // The address changes first, the page after it.
    await header.and(page.locator(`[aria-sort="${told}"]`)).waitFor();
    await page.waitForFunction((isDown) => {
      const cells = [...document.querySelectorAll('[role="row"] [role="cell"]:first-child')].slice(0, 12);
      const names = cells.map((cell) => cell.innerText);
      const sorted = isDown ? [...names].sort().reverse() : [...names].sort();
      return names.length === 12 && names.join() === sorted.join();
    }, sort !== 'name');
  }
  await header.getByRole('button').click();
  await page.waitForURL((at) => !at.searchParams.has('sort'));
  await page.goto(`${url}/clusters`);
  await settled(page);
  const silent = page.getByRole('group', { name: 'State' }).getByRole('button', { name: /Not connected/ });
  const count = Number(/\d+/.exec(await silent.innerText())?.[0]);
  await silent.click();
  await page.waitForURL((at) => at.searchParams.get('state') === 'SILENT');
  await settled(page);
  await page.getByText(`${count} of ${count} rows`, { exact: true }).waitFor();
  await judge(page, 'clusters in one state');
  // An address with a state that there is none of: said by its name, and taken away.
  forgive(page, 400);
  await page.goto(`${url}/services?status=NONSENSE&q=${encodeURIComponent('{"a":1}')}`);
  await page
    .getByRole('alert')
    .getByText(/NONSENSE/)
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Remove the unknown filter NONSENSE' }).click();
  await page.waitForURL((at) => !at.searchParams.has('status'));
  await settled(page);
  await page.close();
}

/** A service's objects: drawn as one box for each kind where they are many, one of them beside the page, revisions compared. */
async function objects(url) {
  const page = await open();
  forgive(page, 503);
  await page.goto(`${url}/services/ap-prod-2/ingress-2`);
  await settled(page);
  await page.getByText(/those that are not well are drawn/).waitFor();
  await page.getByText('330 objects').first().waitFor();
  await page
    .getByRole('button', { name: /thing-5/ })
    .first()
    .click();
  await page.getByRole('dialog').getByText('<img src=x onerror=alert(1)>').first().waitFor();
  assert.match(page.url(), /at=/, 'the chosen object is in the address');
  await page.getByRole('tab', { name: 'Live', exact: true }).click();
  await page.getByText('the agent is not connected').first().waitFor();
  await judge(page, 'an object that cannot be read');
  await page.keyboard.press('Escape');
  await page.getByText('List', { exact: true }).click();
  await page.getByRole('table', { name: 'Objects' }).waitFor();
  assert.match(page.url(), /view=list/);
  await page.goto(`${url}/services/eu-prod-0/web-0?tab=revisions`);
  await settled(page);
  const difference = page.getByRole('region', { name: 'Difference between two revisions' });
  await difference.locator('.cm-mergeView, .cm-editor').first().waitFor();
  await difference.getByText('/spec/replicas').first().waitFor();
  await page.close();
}

/** What is secret stays so: values until asked for, tokens once; nothing of it in the address or in the browser's storage. */
async function told(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  await page.goto(`${url}/services/eu-prod-0/web-0?tab=configuration`);
  await settled(page);
  assert.equal(await page.getByText('the secret').count(), 0, 'a value is shown unasked');
  assert.ok(!asked.some((body) => /configuration \{[^}]*value\b(?!From)/.test(body)), 'a value is read unasked');
  await page.getByText('secret:api#key').waitFor();
  for (const from of ['configmap:shop/web#level', 'vault:kv/shop#dsn', 'sops:secrets.yaml#db.password', 'age:tls.key.age'])
    await page.getByText(from, { exact: true }).waitFor();
  assert.equal(await page.getByRole('button', { name: /^Show / }).count(), 1, 'a reference looks like a secret of the console');
  await page.getByRole('button', { name: 'Show DB_PASSWORD' }).click();
  await page.getByText('the secret').waitFor();
  await page.getByRole('button', { name: 'Change' }).first().click();
  assert.equal(await page.getByRole('dialog').getByLabel('Value', { exact: true }).inputValue(), '', 'a secret is filled in');
  await page.keyboard.press('Escape');
  await page.goto(`${url}/settings/recordings/rec0`);
  await page.getByText('exec in shop/web-0 by ada@example.com').waitFor();
  await page.getByRole('button', { name: 'Play' }).click();
  await page.getByText('0:02 of 0:02').waitFor();
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor({ state: 'attached' });
  await page.goto(`${url}/settings/tokens`);
  await settled(page);
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByRole('dialog').getByText('plural tokens create --valid-for 30d').waitFor();
  await judge(page, 'a form in a dialog');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
  assert.ok(!kept.includes('console-'), 'a token is kept in the browser');
  await page.goto(`${url}/audit`);
  await settled(page);
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('The log is not as it was written').waitFor();
  await judge(page, 'an audit log that somebody changed');
  await page.close();
}

/** The plan of a run is read and approved by its digest; a log is searched; what is secret is asked for. */
async function runs(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  await page.goto(`${url}/stacks/network-0/runs/st0-r12`);
  await settled(page);
  await page.getByText('Its plan waits for approval').waitFor();
  await page.getByText('2 to destroy').first().waitFor();
  // What takes something away stands first; attributes are worked out when they are looked at.
  await page.locator('summary').getByText('aws_instance.bastion', { exact: true }).first().click();
  await page.getByText('forces the replacement').waitFor();
  await page.getByText('known after apply').first().waitFor();
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await page.locator('summary').getByText('module.db.aws_db_instance.main', { exact: true }).click();
  await page.getByText('sensitive, not shown').first().waitFor();
  await judge(page, 'a plan with attributes');
  await page.getByText('Text', { exact: true }).click();
  await page.getByText('must be replaced').waitFor();
  assert.match(page.url(), /view=text/);
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(DIGEST, { exact: true }).waitFor();
  await dialog.getByText(`plural cd stacks approve`).waitFor();
  await judge(page, 'an approval');
  await dialog.getByLabel(/Type/).fill('network-0');
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const sent = asked.filter((body) => body.includes('mutation ApproveRun'));
  assert.equal(sent.length, 1, 'approved once');
  assert.equal(JSON.parse(sent[0]).variables.digest, DIGEST, 'the digest that was shown');

  await page.goto(`${url}/stacks/database-1/runs/st1-r12?tab=steps`);
  await settled(page);
  await page.getByText('Why it failed').waitFor();
  const log = page.getByRole('log', { name: 'Lines' });
  await log.getByText('the quota of subnets is used up').waitFor();
  await page.getByLabel('Search in the log').fill('Initializing the backend');
  await page.getByText('1 of 1 line').waitFor();
  await page.getByLabel('Search in the log').press('Enter');
  await log.getByText('Initializing the backend').waitFor();
  assert.equal(await log.getByText('50 %').count(), 0, 'what was written over is shown');
  await judge(page, 'a log that is searched');

  await page.goto(`${url}/stacks/network-0?tab=drift`);
  await settled(page);
  const drifted = (address) =>
    page.getByRole('table', { name: 'Resources that drifted' }).getByRole('row').filter({ hasText: address });
  await drifted('aws_instance.bastion').getByText('instance_type: "t3.small" → "m5.4xlarge"').waitFor();
  await drifted('aws_db_instance.main').getByText('password: differs; it is sensitive and not shown').waitFor();
  await drifted('aws_db_instance.main').getByText('and 4 more differences').waitFor();

  await page.goto(`${url}/stacks/network-0?tab=outputs`);
  await settled(page);
  assert.ok(!asked.some((body) => /output \{[^}]*\bvalue\b/.test(body)), 'outputs are read unasked');
  await page.getByRole('button', { name: 'Show values that are not secret' }).click();
  await page.getByText('10.0.0.4').waitFor();
  assert.equal(await page.getByText('the secret output').count(), 0, 'a secret output is shown unasked');
  await page.getByRole('button', { name: 'Show token' }).click();
  await dialog.getByRole('button', { name: 'Show token' }).click();
  await dialog.getByText('the secret output').waitFor();
  await page.keyboard.press('Escape');
  await page.goto(`${url}/approvals`);
  await settled(page);
  await page.getByRole('table', { name: 'Runs that wait for approval' }).getByRole('link').first().waitFor();
  await page.getByRole('navigation', { name: 'Places' }).getByText(/^50\+/).waitFor();
  await page.close();
}

/** What a state holds: thousands of resources as boxes, one of them with what it needs and what needs it, and the same as a list. */
async function states(url) {
  const page = await open();
  await page.goto(`${url}/stacks/network-0?tab=state`);
  await settled(page);
  const graph = page.getByRole('application', { name: 'Resources and what they need' });
  await page.getByText(/^2,999 resources\. .* too many to draw/).waitFor();
  // What draws them is read when there is something to draw.
  const boxes = graph.getByRole('button');
  await boxes.nth(10).waitFor();
  const count = await boxes.count();
  assert.ok(count > 10 && count <= 40, `${count} boxes`);
  // A module is opened by keyboard; what is said of it is where the keyboard is.
  await graph.getByRole('button', { name: /^Module module\.shop0 90 resources/ }).press('Enter');
  await page.waitForURL(/at=module/);
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('module.shop0, of 2,999 resources'));
  await graph.getByRole('button', { name: /^aws_instance part3 module\.shop0\.module\.tier0/ }).press('Enter');
  const chosen = page.getByRole('region', { name: 'The resource that is chosen' });
  await chosen.getByText('module.shop0.module.tier0.aws_instance.part3', { exact: true }).waitFor();
  await numbers(boxes, 3, 'it, what it needs, and what needs it');
  await judge(page, 'a resource with what it needs');
  await chosen.getByRole('button', { name: 'module.shop0.module.tier0.aws_security_group.part0' }).press('Enter');
  await chosen.getByRole('button', { name: 'module.subnets.aws_subnet.private' }).press('Enter');
  await chosen.getByText('and 980 resources more').waitFor();
  await page.getByRole('button', { name: 'Show all' }).press('Enter');
  await page.getByText(/^2,999 resources\. /).waitFor();
  // A key of an instance is text, whatever it is, and found as such.
  await page.getByRole('searchbox', { name: 'Search by address' }).fill('onerror');
  await page.getByText(/^What matches of 2,999 resources/).waitFor();
  await numbers(boxes, 4, 'what matches, with what it needs and what needs it');
  await page.getByText('List', { exact: true }).click();
  await page.waitForURL(/view=list/);
  const list = page.getByRole('table', { name: 'Resources', exact: true });
  await list.getByText('data.aws_ami.base, module.subnets.aws_subnet.private').waitFor();
  await list.getByText('module.a.aws_instance.web["<img src=x onerror=alert(1)>\\u202egnp.exe"]').waitFor();
  await page.getByRole('searchbox', { name: 'Search by address' }).fill('no such');
  await page.getByText('No resource matches').waitFor();
  await page.getByText('Graph', { exact: true }).click();
  await page.getByText('No resource matches').waitFor();
  await page.close();
}

/** What stacks depend on, what checks their plans, and commands with questions: by forms, and by keyboard alone where rows are made. */
async function forms(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  const sent = (mutation) => {
    const all = asked.filter((body) => body.includes(`mutation ${mutation}(`));
    assert.equal(all.length, 1, `${mutation} once`);
    asked.length = 0;
    return JSON.parse(all[0]).variables.attributes;
  };
  const dialog = page.getByRole('dialog');
  const change = async (region) => {
    await page.getByRole('region', { name: region }).getByRole('button', { name: 'Change' }).click();
    await dialog.waitFor();
  };
  const choose = async (within, label, option) => {
    await within.getByLabel(label).first().click();
    await page.getByRole('option', { name: option, exact: true }).click();
  };
  const save = async (name) => {
    await dialog.getByRole('button', { name, exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
  };

  // By its tag a stack is found, from the list and from where it is tagged.
  await page.goto(`${url}/stacks`);
  await settled(page);
  await choose(page, /^Tag$/, 'stage=test (1,500)');
  await page.waitForURL((address) => address.searchParams.get('tag') === 'stage=test');
  await page.getByRole('link', { name: 'database-1', exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'network-0', exact: true }).count(), 0, 'another tag is listed');
  await page.goto(`${url}/stacks/database-1?tab=settings`);
  await settled(page);
  await page.getByRole('button', { name: 'Change the tags' }).click();
  await dialog.getByRole('textbox', { name: /^Tags/ }).fill('stage=prod\nteam=shop');
  await dialog.getByText('plural cd stacks update database-1 --tag stage=prod --tag team=shop').waitFor();
  await save('Change the tags');
  assert.deepEqual(sent('UpdateStack').tags, [
    { name: 'stage', value: 'prod' },
    { name: 'team', value: 'shop' },
  ]);

  await page.goto(`${url}/stacks/network-0?tab=settings`);
  await settled(page);
  await change('How its code is followed');
  await dialog.getByRole('textbox', { name: /^Its code is looked at every/ }).fill('5m');
  await dialog.getByText('plural cd stacks update network-0 --interval=5m').waitFor();
  await judge(page, 'a form of how code is followed');
  await save('Change');
  // What was not changed is not given: somebody else may have named it.
  assert.deepEqual(sent('UpdateStack'), { interval: '5m' });

  await page.goto(`${url}/stacks/database-1?tab=settings`);
  await settled(page);
  await change('Dependencies on other stacks');
  await dialog.getByRole('button', { name: 'Add a dependency' }).press('Enter');
  const second = dialog.getByRole('group', { name: 'Dependency 2' });
  // What is asked for in the new row has the focus: nobody looks for it.
  await page.waitForFunction(
    () => document.activeElement?.closest('fieldset')?.querySelector('legend')?.textContent === 'Dependency 2',
  );
  await choose(second, /^Stack/, 'dns-2');
  await second.getByText('address, token').waitFor();
  await second.getByRole('textbox', { name: /^Outputs/ }).fill('address\ntoken=dns_token');
  await dialog.getByText(/--depends-on dns-2:address,token=dns_token/).waitFor();
  await judge(page, 'a form of dependencies');
  await save('Change');
  assert.deepEqual(sent('UpdateStack').dependencies, [
    {
      stackId: 'st0',
      outputs: [
        { output: 'address', variable: 'address' },
        { output: 'token', variable: 'network_token' },
      ],
    },
    {
      stackId: 'st2',
      outputs: [
        { output: 'address', variable: 'address' },
        { output: 'token', variable: 'dns_token' },
      ],
    },
  ]);

  await change('Policy');
  await choose(dialog, /^Checks its plans/, 'the console, by rules in Rego');
  await choose(dialog, /^A finding refuses/, 'worse than low');
  await dialog.getByText('--policy rego --policy-max-severity LOW').waitFor();
  await save('Change');
  assert.deepEqual(sent('UpdateStack').policyEngine, { type: 'REGO', customPolicies: false, maxSeverity: 'LOW' });

  await page.goto(`${url}/stacks/network-0?tab=commands`);
  await settled(page);
  await page.getByRole('button', { name: 'Change grow' }).click();
  await dialog.getByRole('button', { name: 'Move question 3 up' }).click();
  await dialog.getByRole('button', { name: 'Remove question 3' }).press('Enter');
  await page.waitForFunction(() => document.activeElement?.textContent === 'Add a question');
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    () => document.activeElement?.closest('fieldset')?.querySelector('legend')?.textContent === 'Question 3',
  );
  await judge(page, 'a form of questions');
  await dialog.getByRole('button', { name: 'Change grow', exact: true }).click();
  await dialog.getByText('This is needed.').waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-invalid') === 'true');
  await dialog.getByRole('group', { name: 'Question 3' }).getByRole('textbox', { name: /^Name/ }).fill('NODES');
  await dialog.getByText(/plural cd stacks commands update st0-c0 --file -/).waitFor();
  await save('Change grow');
  const stored = sent('UpdateCustomRun');
  assert.deepEqual(stored.commands, [{ cmd: './grow.sh', args: ['--verbose'], approve: true }]);
  assert.deepEqual(
    stored.configuration.map(({ name, type }) => `${type} ${name}`),
    ['INT SIZE', 'PASSWORD TOKEN', 'STRING NODES'],
  );

  await page.goto(`${url}/settings/projects/default`);
  await settled(page);
  await change('Rules for plans of its stacks');
  await dialog.getByRole('button', { name: 'Remove file 1' }).click();
  await dialog.getByText('plural cd projects stack-rules default --clear').waitFor();
  await dialog.getByRole('button', { name: 'Add a file' }).click();
  await dialog.getByRole('textbox', { name: /^Path/ }).fill('tags.rego');
  await dialog.getByRole('textbox', { name: /^Rules/ }).fill('package plural.stacks');
  await dialog.getByText('plural cd projects stack-rules default --dir policies').waitFor();
  await save('Change');
  // Rules alone: the limits of the project stay.
  assert.deepEqual(sent('SetProjectRules'), { stackRules: [{ path: 'tags.rego', rego: 'package plural.stacks' }] });

  await change('Jobs of its stacks, where a stack says nothing');
  await dialog.getByRole('textbox', { name: /^Labels of the nodes/ }).fill('disk=ssd');
  await dialog
    .getByRole('textbox', { name: /^Labels/ })
    .first()
    .fill('team=shop');
  await dialog.getByRole('textbox', { name: /^Memory that they may take/ }).fill('');
  await dialog.getByText(/plural cd projects stack-settings default --settings -/).waitFor();
  await judge(page, 'a form of the settings of stacks');
  await save('Change');
  // All that is said from then on.
  assert.deepEqual(sent('SayStackSettings'), {
    jobSpec: {
      namespace: 'shop-runs',
      labels: { team: 'shop' },
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'dedicated', operator: 'Equal', value: 'runs', effect: 'NoSchedule' }],
      resources: { requests: { cpu: '500m' } },
    },
  });
  await page.goto(`${url}/settings/stack-settings`);
  await settled(page);
  await change('Jobs of stacks, where neither a stack nor its project says anything');
  await dialog
    .getByRole('textbox', { name: /^Labels/ })
    .first()
    .fill('');
  await dialog.getByRole('textbox', { name: /^Processor that they ask for/ }).fill('');
  await dialog.getByText('plural cd settings stacks --clear').waitFor();
  await save('Change');
  assert.deepEqual(sent('SayStackSettingsOfAll'), { stacks: {} });

  await page.goto(`${url}/settings/stack-definitions/definition-0`);
  await settled(page);
  await page.getByRole('button', { name: 'Change', exact: true }).click();
  await dialog.getByRole('button', { name: 'Add a hook' }).click();
  const hook = dialog.getByRole('group', { name: 'Hook 2' });
  await hook.getByRole('textbox', { name: /^Command/ }).fill('./tell "all of them"');
  await dialog.getByText(`--hook 'apply=./tell "all of them"'`).waitFor();
  await save('Change');
  assert.deepEqual(sent('UpdateStackDefinition').configuration.hooks, [
    { cmd: './dns', args: ['login'], afterStage: 'INIT' },
    { cmd: 'sh', args: ['-c', './tell "all of them"'], afterStage: 'APPLY' },
  ]);
  await page.close();
}

/** The value of the Secret that an automation asks for. */
const secretOf = (page) => page.getByLabel(/^password/).first();

/** A form is filled in, told what is wrong as it is typed, and shows the diff before anything is opened. No secret leaves the page. */
async function selfService(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  const sent = (mutation) =>
    asked.filter((body) => body.includes(`mutation ${mutation}(`)).map((body) => JSON.parse(body).variables);
  await page.goto(`${url}/self-service`);
  await settled(page);
  await page.getByText(/^\d+ automations read/).waitFor();
  // Only cards in sight are drawn.
  assert.ok((await page.locator('main li').count()) < 100, 'cards out of sight are drawn');
  await page.getByLabel('Search in automations').fill('automation-7');
  await page.waitForURL(/q=automation-7/);
  await page
    .getByRole('link', { name: /automation-7\b/ })
    .first()
    .click();
  await page.getByRole('heading', { name: 'automation-7', level: 1 }).waitFor();

  await page.getByLabel(/^name/).fill('Shop 1');
  await page.getByText('Must match ^[a-z]+$.').waitFor();
  await page.getByRole('button', { name: 'Next', exact: true }).click();
  await page.getByLabel(/^name/).fill('taken');
  await page.getByText('Must match').waitFor({ state: 'detached' });
  await page.getByLabel(/^replicas/).fill('many');
  await page.getByText('Must be a whole number.').waitFor();
  await judge(page, 'a form with something wrong in it');
  // What is asked hangs on an answer before it.
  await page.getByLabel(/^size/).first().click();
  await page.getByRole('option').nth(1).click();
  await page.getByLabel(/^replicas/).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Next', exact: true }).click();
  await page
    .getByLabel(/^cluster/)
    .first()
    .fill('prod-0');
  await page.getByRole('option', { name: /^eu-prod-0 / }).click();
  const token = page.getByLabel(/^token/).first();
  await token.fill('s3cr3t-of-the-walk');
  assert.equal(await token.getAttribute('type'), 'password');
  await page.getByRole('button', { name: 'Next', exact: true }).click();
  await secretOf(page).fill('s3cr3t-of-the-cluster');
  await page.getByRole('button', { name: 'Show what would change' }).click();
  // The console has the last word: what it refuses stands at its field.
  await page.getByText('Must be new: a cluster has this name.').waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-invalid') === 'true');
  await page.getByLabel(/^name/).fill('shop');
  await page.getByText('Must be new').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Next', exact: true }).click();
  await token.waitFor();
  await page.getByRole('button', { name: 'Next', exact: true }).click();
  await secretOf(page).waitFor();
  await page.getByRole('button', { name: 'Show what would change' }).click();
  await page.getByText('2 files would change').waitFor();
  const file = page.getByRole('region', { name: 'Changes of apps/shop.yaml' });
  await file.getByText('+replicas: 2').waitFor();
  await page.getByText('Add shop', { exact: true }).waitFor();
  await judge(page, 'a review');
  assert.equal(sent('OpenPullRequest').length, 0, 'a pull request is opened unasked');
  const shown = await page.locator('main').innerText();
  assert.ok(shown.includes('--secret-set token') && !shown.includes('s3cr3t'), 'a secret is shown');
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state]),
  );
  assert.ok(!kept.includes('s3cr3t'), 'a secret is kept in the browser');
  // What it would do, asked for by itself.
  await page.getByRole('button', { name: 'Show what it would do' }).click();
  const effects = page.getByRole('region', { name: 'What it would do to services' });
  await effects.getByRole('link', { name: 'eu-prod-0 / shop' }).waitFor();
  await effects.getByText('Agent away', { exact: true }).waitFor();
  await effects.getByRole('link', { name: 'network' }).waitFor();
  await effects.getByText('1 to add, 2 to change, 0 to destroy').waitFor();
  await effects.getByRole('button', { name: 'Show the objects' }).click();
  await effects.getByText('/data/note').waitFor();
  await judge(page, 'what a pull request would do');
  const [planned] = sent('PlanPullRequestPreview');
  assert.deepEqual(planned.context, sent('PreviewPullRequest').at(-1).context);
  const opens = page.getByRole('button', { name: 'Open the pull request' });
  await opens.click();
  await page.getByText('1 box above is not ticked.').waitFor();
  await page.getByLabel('I asked').check();
  await opens.click();
  await page.waitForURL(/settings\/pull-requests\/pr3/);
  await page.getByText('It is being opened').waitFor();
  await judge(page, 'a pull request that is being opened');
  const [opened] = sent('OpenPullRequest');
  assert.deepEqual(Object.keys(opened.context).sort(), ['cluster', 'name', 'size', 'token']);
  assert.equal(opened.context.cluster, 'eu-prod-0');
  await page.close();
}

/** How a pull request stands at its host, and a merge of the commit that was shown. */
async function pulls(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  await page.goto(`${url}/settings/pull-requests/pr0`);
  await settled(page);
  const stands = page.getByRole('region', { name: 'At its git host' });
  await stands.getByText('Checks failed').waitFor();
  await stands.getByText('1 failed, 2 not done, 4 passed').waitFor();
  await stands.getByText('1 reviewer approved, 1 reviewer asked for changes').waitFor();
  await stands.getByText('Confirmed the newest commit').waitFor();
  for (const about of ['eu-prod-0/shop', 'network', 'eu-prod-0']) {
    await stands.getByRole('link', { name: about, exact: true }).waitFor();
  }
  await page.getByRole('button', { name: 'Merge', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(HEAD, { exact: true }).waitFor();
  await dialog.getByText('1 check of it failed.').waitFor();
  await dialog.getByText(`plural pr merge pr0 --method merge --head ${HEAD}`).waitFor();
  await judge(page, 'a merge');
  await dialog.getByRole('button', { name: 'Merge', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const sent = asked.filter((body) => body.includes('mutation MergePullRequest('));
  assert.equal(sent.length, 1, 'merged once');
  assert.deepEqual(JSON.parse(sent[0]).variables, { id: 'pr0', head: HEAD, method: 'MERGE' });
  // Outside of its windows, it is merged when one opens.
  await page.goto(`${url}/settings/pull-requests/pr60`);
  await settled(page);
  await stands.getByText('For 4 h from').waitFor();
  await stands.getByText('its head is another now').waitFor();
  await page.getByRole('button', { name: 'Merge in window', exact: true }).click();
  await dialog.getByText(`plural pr merge pr60 --method merge --head ${HEAD} --in-window`).waitFor();
  await judge(page, 'a merge in a window');
  await dialog.getByRole('button', { name: 'Merge in window', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const wished = asked.filter((body) => body.includes('mutation MergePullRequest('));
  assert.deepEqual(JSON.parse(wished[1]).variables, { id: 'pr60', head: HEAD, method: 'MERGE', inWindow: true });
  // And not, once that is cancelled.
  await page.goto(`${url}/settings/pull-requests/pr15`);
  await settled(page);
  await stands.getByText('as one commit with all changes').waitFor();
  await page.getByRole('button', { name: 'Cancel the merge', exact: true }).click();
  await dialog.getByText('plural pr merge pr15 --cancel').waitFor();
  await dialog.getByRole('button', { name: 'Cancel the merge', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const cancelled = asked.filter((body) => body.includes('mutation CancelPullRequestMerge('));
  assert.deepEqual(JSON.parse(cancelled[0]).variables, { id: 'pr15' });
  // What its governance did not confirm is not merged.
  await page.goto(`${url}/settings/pull-requests/pr30`);
  await settled(page);
  await stands.getByText('Says no').waitFor();
  await page.getByRole('button', { name: 'Merge', exact: true }).press('Enter');
  await page.getByText('Its governance did not confirm its newest commit yet').waitFor();
  // Nobody knows what a merge of this one would be.
  await page.goto(`${url}/settings/pull-requests/pr6`);
  await settled(page);
  await page.getByText('It could not be read the last time').waitFor();
  await page.getByRole('button', { name: 'Merge', exact: true }).press('Enter');
  await page.getByText('Its newest commit is not known yet').waitFor();
  // Whoever adds a governance changes none that is there.
  await page.goto(`${url}/settings/pr-governances`);
  await settled(page);
  await page.getByRole('button', { name: 'Add a governance' }).click();
  await dialog.getByLabel(/^Name/).fill('board-0');
  await dialog.getByLabel(/^Address/).fill('https://board.example.com');
  await dialog.getByRole('button', { name: 'Add a governance' }).click();
  await dialog.getByText('there is a governance with this name already').waitFor();
  assert.ok(!asked.some((body) => body.includes('mutation UpsertPrGovernance(')), 'nothing was written over');
  await page.close();
}

/** Deploys a service, watches it become healthy, breaks it, reads the reason, compares, rolls back, releases, deletes. */
async function life(page, origin) {
  const dialog = page.getByRole('dialog');
  const fill = (label, text) => dialog.getByLabel(label).fill(text);
  await page.goto(`${origin}/services?cluster=demo-1`);
  await settled(page);
  await page.getByRole('button', { name: 'Create a service' }).click();
  await fill(/^Name \*/, 'walk');
  await fill(/^Folder/, 'web');
  await dialog.getByText('plural cd services create demo-1/walk').waitFor();
  await dialog.getByRole('button', { name: 'Create a service' }).click();
  await page.getByRole('heading', { name: 'walk', level: 1 }).waitFor();
  // Its template wants a value that it does not have: the reason says so, and how to set it.
  await page.getByText('the configuration has no value "greeting"').first().waitFor({ timeout: 90_000 });
  await page.getByRole('tab', { name: 'Configuration' }).click();
  await page.getByRole('button', { name: 'Add a value' }).click();
  await fill(/^Name \*/, 'greeting');
  await dialog.getByLabel('Value', { exact: true }).fill('hello-from-the-walk');
  await dialog.getByRole('button', { name: 'Add a value' }).click();
  await page.getByRole('button', { name: 'Show greeting' }).waitFor();
  assert.equal(await page.getByText('hello-from-the-walk').count(), 0, 'a value is shown unasked');
  await page.locator('[data-tone="good"]').getByText('Healthy', { exact: true }).first().waitFor({ timeout: 90_000 });
  await page.getByRole('tab', { name: 'Components' }).click();
  await page.getByRole('button', { name: /Deployment .*web/ }).click();
  await page.getByRole('tab', { name: 'Rendered and live' }).click();
  await page.getByText('All that the revision says is so in the cluster.').waitFor();
  await judge(page, 'an object beside its service');
  await page.keyboard.press('Escape');
  await judge(page, 'a service that is healthy');

  await page.getByRole('tab', { name: 'Settings' }).click();
  const source = page.getByRole('region', { name: 'Where it is read from' });
  await source.getByRole('button', { name: 'Change' }).click();
  await fill(/^Folder/, 'broken');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await page.getByText('Why it fails').waitFor({ timeout: 90_000 });
  await page
    .getByText(/unexpected end of stream/)
    .first()
    .waitFor();

  await page.getByRole('tab', { name: 'Revisions' }).click();
  await page.getByRole('region', { name: 'Difference between two revisions' }).waitFor();
  // The newest of those that can be applied again was healthy.
  await page.getByRole('button', { name: 'Roll back', disabled: false }).first().click();
  await dialog.getByText('plural cd services rollback demo-1/walk').waitFor();
  await dialog.getByRole('button', { name: 'Roll back' }).click();
  await page.getByRole('button', { name: 'Release' }).waitFor({ timeout: 90_000 });
  await page.getByText('Why it fails').waitFor({ state: 'detached', timeout: 90_000 });

  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog.getByText(/These go, in this order/).waitFor();
  await dialog.getByLabel(/Type/).fill('walk');
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** Makes a user by invitation, a token that is shown once, and a command that connects a cluster. */
async function people(page, origin) {
  const dialog = page.getByRole('dialog');
  await page.goto(`${origin}/settings/groups`);
  await settled(page);
  await page.getByRole('button', { name: 'Create a group' }).click();
  await dialog.getByLabel(/^Name \*/).fill('walkers');
  await dialog.getByRole('button', { name: 'Create a group' }).click();
  await page.getByRole('link', { name: 'walkers' }).click();
  await page.getByRole('heading', { name: 'walkers', level: 1 }).waitFor();
  await page.goto(`${origin}/settings/tokens`);
  await settled(page);
  await page.getByRole('button', { name: 'Create a token' }).click();
  await dialog.getByRole('button', { name: 'Create a token' }).click();
  await dialog.getByText('is shown now and never again').waitFor();
  const token = await dialog.locator('pre').first().innerText();
  assert.match(token, /^console-/);
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  assert.equal(await page.getByText(token).count(), 0, 'the token is shown twice');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
  assert.ok(!kept.includes(token), 'the token is kept in the browser');
  await page.goto(`${origin}/connect`);
  await page.getByLabel(/^Handle/).fill('walked');
  await page.getByLabel(/^Image/).fill('registry.example.com/plural:1');
  await page.getByRole('button', { name: 'Create the command' }).click();
  await page.getByText('plural cd clusters bootstrap walked').waitFor();
  await page.getByText('This page asks every two seconds.').waitFor();
}

async function real(link) {
  const page = await open();
  await page.goto(link);
  await page.getByRole('heading', { name: 'Fleet', level: 1 }).waitFor();
  assert.ok(!page.url().includes('link='), 'the code stands in the address');
  await page.getByText('Live', { exact: true }).waitFor();
  // At the first sign-in the tour is offered; once taken, it is not.
  await page.getByRole('complementary', { name: 'Tour' }).getByRole('button', { name: 'Take the tour' }).click();
  await page.getByRole('dialog', { name: 'Your fleet' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.getByRole('complementary', { name: 'Tour' }).count(), 0, 'the tour is offered again');
  const failing = page.getByRole('table', { name: 'Failing services' });
  await failing.getByRole('link').first().waitFor();
  await judge(page, 'Fleet');
  await failing.getByRole('link').first().click();
  await page.getByText('Why it fails').waitFor();
  const why = await page.getByRole('alert').first().innerText();
  await settled(page);
  await judge(page, 'a service that fails');
  await page.goto(`${new URL(link).origin}/services?status=HEALTHY`);
  await settled(page);
  await page.getByRole('table', { name: 'Services' }).getByRole('link').first().click();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('plural cd services pause').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'Resume' }).waitFor();
  await life(page, new URL(link).origin);
  await people(page, new URL(link).origin);
  await page.goto(`${new URL(link).origin}/audit?action=service.*`);
  await settled(page);
  const rows = page.getByRole('table', { name: 'Audit log' });
  for (const action of ['service.delete', 'service.create']) await rows.getByText(action, { exact: true }).first().waitFor();
  const log = await rows.innerText();
  assert.ok(log.indexOf('service.delete') < log.indexOf('service.create'), 'newest first');
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('Nothing was edited, removed or reordered').waitFor();
  await page.keyboard.press('Escape');
  forgive(page, 401);
  await page.getByRole('button', { name: 'Your account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.waitForURL(/auth/);
  await page.goto(`${new URL(link).origin}/services`);
  await page.waitForURL(/auth\/sign-in/);
  return { why };
}

const [what, link] = process.argv.slice(2);
let seen = {};
try {
  seen = what === 'console' ? await real(link) : await made(link);
} catch (error) {
  problems.push(String(error));
} finally {
  await browser.close();
}
console.log(JSON.stringify({ ...seen, problems }));
process.exit(problems.length === 0 ? 0 : 1);
