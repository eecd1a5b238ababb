// A stack from the wizard to its end, and what was seen of it as one JSON object: made, planned, read, approved by the digest that was read,
// applied, its outputs, destroyed. Console, agent, git, tool and browser are real.
//
//   stack_day.mjs PART WORLD    PART: see PARTS below. WORLD, as JSON: the console's url, its administrator's email and password, the git
//                               remote with the code in the folder "infra", the handle of the cluster, and the tool: TERRAFORM (the code has one
//                               terraform_data.one with the input "hello", and outputs "word" and "hidden") or CUSTOM.
import { strict as assert } from 'node:assert';

import { forgive, judge, open, overhang, play, problems, settled } from './browser.mjs';
import { goesTo, opens, picks, tabsTo, types } from './keys.mjs';

const [part, text = '{}'] = process.argv.slice(2);
const { url, email, password, remote, cluster, tool } = JSON.parse(text);
const seen = { steps: [] };

const STACK = 'network';
const isTool = tool === 'TERRAFORM';
/** Of commands of its own: what is planned, applied, undone. */
const COMMANDS = { plan: 'echo it would be made', apply: 'echo it is made', undo: 'echo it is undone' };
/** Console, git, agent, cluster and tool each have a share in this. */
const PATIENCE = { timeout: 90_000 };

const dialog = (page) => page.getByRole('dialog');
const stack = (search = '') => `${url}/stacks/${STACK}${search}`;
const heading = (page, name) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
/** The way to a run that waits, on the page of its stack. */
const waiting = (page) => page.getByRole('alert').getByRole('link', { name: /^Run #\d+$/ });

/** A page of somebody who is not signed in yet, and of runs that are gone with their stack: the console says so by its status. */
async function newPage(options) {
  const page = await open(options);
  for (const status of [401, 403, 404]) forgive(page, status);
  return page;
}

async function signsIn(page) {
  await page.goto(url);
  await page.waitForURL(/auth\/sign-in/);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in with a password' }).click();
  await heading(page, 'Fleet');
  await page.getByRole('complementary', { name: 'Tour' }).getByRole('button', { name: 'Not now' }).click();
}

async function chooses(page, label, name) {
  await page.getByLabel(label).first().click();
  await page.getByRole('option', { name, exact: true }).click();
}

const next = (page) => page.getByRole('button', { name: 'Next', exact: true }).click();

/** The wizard asks for one thing after another, and says what is missing. */
async function makes(page) {
  await page.goto(`${url}/stacks`);
  await settled(page);
  await page.getByRole('link', { name: 'Create a stack' }).click();
  await heading(page, 'Create a stack');
  await settled(page);
  await page.getByLabel(/^Name/).fill(STACK);
  await next(page);
  await page.getByText('This is needed.').first().waitFor();
  await chooses(page, /^Repository/, remote);
  await page.getByLabel(/^Folder/).fill('infra');
  await next(page);
  if (!isTool) {
    await chooses(page, /^Tool \*/, 'Own commands');
    await page.getByLabel(/^Commands that say what would change/).fill(COMMANDS.plan);
    await page.getByLabel(/^Commands that do it/).fill(COMMANDS.apply);
    await page.getByLabel(/^Commands that undo it/).fill(COMMANDS.undo);
  }
  // Nobody pulls it: the tool is on this machine.
  await page.getByLabel(/^Image with the tool/).fill('example.org/tools');
  await next(page);
  await chooses(page, /^Cluster whose agent runs it/, cluster);
  await judge(page, 'where a stack runs');
  const make = page.getByRole('button', { name: 'Make the stack' });
  for (let parts = 0; parts < 8 && (await make.count()) === 0; parts += 1) await next(page);
  await page.getByText(`plural cd stacks create ${STACK}`).first().waitFor();
  await judge(page, 'a stack before it is made');
  await make.click();
  await dialog(page).getByRole('button', { name: 'Make the stack' }).click();
  await heading(page, STACK);
}

/** Its first plan comes by itself, and waits; every resource is read with its attributes, and as text. */
async function reads(page) {
  await page.goto(stack());
  await waiting(page).first().waitFor(PATIENCE);
  await judge(page, 'a stack whose plan waits');
  await waiting(page).first().click();
  await heading(page, `${STACK} #1`);
  await page.getByText('Its plan waits for approval').waitFor();
  if (isTool) {
    await page.getByText('1 to create').first().waitFor();
    await page.getByText('terraform_data.one', { exact: true }).first().click();
    const attributes = page.getByRole('table', { name: 'Attributes of terraform_data.one' });
    await attributes.getByText('hello').first().waitFor();
    await attributes.getByText('known after apply').first().waitFor();
    await judge(page, 'a plan with its attributes');
  }
  await page.getByText('Text', { exact: true }).click();
  const lines = page.getByRole('log', { name: 'Lines' });
  await lines
    .getByText(isTool ? /terraform_data\.one/ : 'it would be made')
    .first()
    .waitFor();
}

/** What is sent is the digest of the plan that is shown, and the same one is applied. */
async function approves(page) {
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  const digest = await page.locator('code[title]').first().getAttribute('title');
  assert.match(digest, /^[0-9a-f]{64}$/);
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog(page).getByText(digest, { exact: true }).waitFor();
  await dialog(page).getByText(`plural cd stacks approve ${STACK}/1 --digest ${digest}`).waitFor();
  await judge(page, 'an approval');
  await dialog(page).getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog(page).waitFor({ state: 'detached' });
  const sent = asked.filter((body) => body.includes('mutation ApproveRun'));
  assert.deepEqual(
    sent.map((body) => JSON.parse(body).variables.digest),
    [digest],
  );
  await isOver(page);
  await page.getByRole('tab', { name: 'Steps and logs' }).click();
  const lines = page.getByRole('log', { name: 'Lines' });
  await lines
    .getByText(isTool ? /1 added, 0 changed, 0 destroyed/ : 'it is made')
    .first()
    .waitFor();
  await page.getByText('1 of 1 approval').waitFor();
  await judge(page, 'a run that was applied');
}

/** The run on this page has ended, and well. */
async function isOver(page) {
  await page.getByRole('button', { name: 'Run again' }).waitFor(PATIENCE);
  for (const why of ['Why it failed', 'Why it ended'])
    assert.equal(await page.getByText(why).count(), 0, `${why}: ${await page.locator('main').innerText()}`);
}

/** What it gives to others; what is secret only when it is asked for. */
async function sees(page) {
  await page.goto(stack('?tab=outputs'));
  await settled(page);
  if (!isTool) {
    await page.getByText('No outputs').waitFor();
    return;
  }
  await page.getByRole('button', { name: 'Show values that are not secret' }).click();
  const outputs = page.getByRole('table', { name: 'Outputs' });
  await outputs.getByText('hello', { exact: true }).waitFor();
  assert.equal(await page.getByText('s3cr3t').count(), 0, 'a secret output is shown unasked');
  await page.getByRole('button', { name: 'Show hidden' }).click();
  await dialog(page).getByRole('button', { name: 'Show hidden' }).click();
  await dialog(page).getByText('s3cr3t-hello', { exact: true }).waitFor();
  await page.goto(stack('?tab=state'));
  await settled(page);
  const drawn = page.getByRole('application', { name: 'Resources and what they need' });
  await drawn.getByRole('button', { name: /^terraform_data one/ }).press('Enter');
  await page
    .getByRole('region', { name: 'The resource that is chosen' })
    .getByText('terraform_data.one', { exact: true })
    .waitFor();
  await judge(page, 'the state of a stack');
  await page.getByText('List', { exact: true }).click();
  await page.getByRole('table', { name: 'Resources', exact: true }).getByText('terraform_data.one').waitFor();
}

/** Pages that somebody else has open hear of it: nobody loads them again, and by themselves they would ask later than this waits. */
async function hears(page) {
  const other = await newPage();
  await other.context().addCookies(await page.context().cookies());
  const heard = { timeout: 30_000 };
  const press = async (name) => {
    await page.getByRole('button', { name, exact: true }).click();
    await dialog(page).getByRole('button', { name, exact: true }).click();
    await dialog(page).waitFor({ state: 'detached' });
  };
  await page.goto(stack());
  await settled(page);
  await other.goto(`${url}/stacks`);
  await settled(other);
  await other.getByText(STACK, { exact: true }).first().waitFor();
  // What happens before a page listens, it hears of by asking.
  await other.getByText('Live', { exact: true }).waitFor();
  assert.equal(await other.getByText('paused', { exact: true }).count(), 0);
  await press('Pause');
  await other.getByText('paused', { exact: true }).waitFor(heard);
  await other.goto(stack());
  await settled(other);
  await other.getByRole('button', { name: 'Resume', exact: true }).waitFor();
  await other.getByText('Live', { exact: true }).waitFor();
  await press('Resume');
  await other.getByRole('button', { name: 'Pause', exact: true }).waitFor(heard);
  await other.close();
}

/** A destruction is planned, read and approved like everything else; then the stack is gone. */
async function destroys(page) {
  await page.goto(stack());
  await settled(page);
  await page.getByRole('button', { name: 'Destroy and delete' }).click();
  if (isTool) await dialog(page).getByText('terraform_data.one').waitFor();
  await judge(page, 'a destruction');
  await dialog(page)
    .getByLabel(/^Type /)
    .fill(STACK);
  await dialog(page).getByRole('button', { name: 'Destroy and delete' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await waiting(page).first().waitFor(PATIENCE);
  await waiting(page).first().click();
  await heading(page, `${STACK} #2`);
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog(page).getByText('This run destroys everything that').waitFor();
  if (isTool)
    await dialog(page)
      .getByLabel(/^Type /)
      .fill(STACK);
  await dialog(page).getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await isGone(page);
}

async function isGone(page) {
  for (const end = Date.now() + PATIENCE.timeout; ;) {
    await page.goto(`${url}/stacks`);
    await settled(page);
    if ((await page.getByText('No stacks yet').count()) > 0) return;
    assert.ok(Date.now() < end, 'a stack that was destroyed stays');
  }
}

const presses = async (page, name) => {
  await tabsTo(page, name);
  await page.keyboard.press('Enter');
};

/** All of it without a mouse. */
async function byKeys(page) {
  await page.goto(url);
  await page.waitForURL(/auth\/sign-in/);
  await types(page, /E-mail address/, email);
  await types(page, /^Password$/, password);
  await page.keyboard.press('Enter');
  await heading(page, 'Fleet');
  await settled(page);
  await presses(page, /^Not now$/);
  await page.getByRole('complementary', { name: 'Tour' }).waitFor({ state: 'detached' });

  await goesTo(page, 'Stacks', 'Stacks');
  await presses(page, /^Create a stack$/);
  await heading(page, 'Create a stack');
  await settled(page);
  await types(page, /^Name\b/, STACK);
  await picks(page, /^Repository/, remote);
  await types(page, /^Folder/, 'infra');
  await page.keyboard.press('Enter');
  await page.getByLabel(/^Image with the tool/).waitFor();
  if (!isTool) await picks(page, /^Tool \*/, 'Own commands');
  await types(page, /^Image with the tool/, 'example.org/tools');
  if (!isTool) {
    await types(page, /^Commands that say what would change/, COMMANDS.plan);
    await types(page, /^Commands that do it/, COMMANDS.apply);
    await types(page, /^Commands that undo it/, COMMANDS.undo);
  }
  await presses(page, /^Next$/);
  await picks(page, /^Cluster whose agent runs it/, cluster);
  const make = page.getByRole('button', { name: 'Make the stack' });
  for (let parts = 0; parts < 8 && (await make.count()) === 0; parts += 1) await presses(page, /^Next$/);
  await settled(page);
  await opens(page, /^Make the stack$/);
  await presses(page, /^Make the stack$/);
  await heading(page, STACK);

  await waiting(page).first().waitFor(PATIENCE);
  await presses(page, /^Run #1$/);
  await heading(page, `${STACK} #1`);
  await settled(page);
  if (isTool) {
    await presses(page, /terraform_data\.one/);
    await page.getByRole('table', { name: 'Attributes of terraform_data.one' }).getByText('hello').first().waitFor();
  }
  await opens(page, /^Approve$/);
  await presses(page, /^Approve$/);
  await dialog(page).waitFor({ state: 'detached' });
  await isOver(page);

  // The way back stands above the name of the run. A tab is chosen by the arrows, and what it shows is in the address.
  await presses(page, /^network$/);
  await heading(page, STACK);
  await settled(page);
  await tabsTo(page, /^Overview$/);
  for (let tabs = 0; tabs < 12 && !page.url().includes('tab=outputs'); tabs += 1) {
    const before = page.url();
    await page.keyboard.press('ArrowRight');
    await page.waitForURL((now) => now.toString() !== before);
  }
  await page
    .getByText(isTool ? 'hidden' : 'No outputs')
    .first()
    .waitFor();

  await opens(page, /^Destroy and delete$/);
  await types(page, /^Type /, STACK);
  await page.keyboard.press('Enter');
  await dialog(page).waitFor({ state: 'detached' });
  await waiting(page).first().waitFor(PATIENCE);
  await presses(page, /^Run #2$/);
  await heading(page, `${STACK} #2`);
  await settled(page);
  await opens(page, /^Approve$/);
  if (isTool) {
    await types(page, /^Type /, STACK);
    await page.keyboard.press('Enter');
  } else {
    await presses(page, /^Approve$/);
  }
  await dialog(page).waitFor({ state: 'detached' });
  await isGone(page);
}

/** What was made, in the dark and on a phone. */
async function looks(page) {
  const run = new URL(page.url()).pathname;
  const paths = [
    '/stacks',
    '/new-stack',
    ...['', 'runs', 'state', 'outputs', 'settings'].map((tab) => `/stacks/${STACK}?tab=${tab || 'overview'}`),
  ];
  paths.push(`${run}?tab=plan`, `${run}?tab=steps`, `${run}?tab=made`, '/approvals');
  for (const [width, height, colorScheme] of [
    [1280, 800, 'dark'],
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
  await page.setViewportSize({ width: 1280, height: 800 });
  seen.pages = paths.length;
}

const PARTS = {
  day: { signsIn, makes, reads, approves, looks, sees, hears, destroys },
  keys: { byKeys },
};

await play('stack-day', PARTS, part, seen, newPage);
