// What the web console does when an answer fails, a thing is gone or a right revoked, the network comes and goes, and when much changes.
import { strict as assert } from 'node:assert';

const named = (query) => /(?:query|mutation|subscription) (\w+)/.exec(query ?? '')?.[1];
const failed = (code, message = 'it broke') => ({ errors: [{ message, extensions: { code, requestId: 'req-7' } }] });

const isQuery = (request) => (request.url().endsWith('/gql') && request.method() === 'POST' ? 1 : 0);

/** Counts what a page asks for, and answers in the console's place what `answers` has under the query's name. */
async function asked(page) {
  const counts = new Map();
  const answers = new Map();
  await page.route('**/gql', async (route) => {
    const { query, variables } = route.request().postDataJSON() ?? {};
    const name = named(query);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const answer = await answers.get(name)?.(variables ?? {});
    if (answer === undefined) await route.fallback();
    else await route.fulfill(typeof answer === 'number' ? { status: answer, body: '<html>' } : { json: answer });
  });
  let open = 0;
  page.on('request', (request) => (open += isQuery(request)));
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => (open -= isQuery(request)));
  return {
    answers,
    times: (name) => counts.get(name) ?? 0,
    /** Until the page waits for no answer: a query that is on its way is not sent again, and one that arrives later counts as fresh. */
    answered: () => until('all answers', () => open === 0),
    /** After this, all that the page has asked for is counted: requests keep their order. */
    all: () =>
      page.evaluate(() => fetch('/gql', { method: 'POST', body: JSON.stringify({ query: 'query Probe { me { id } }' }) })),
  };
}

/** Until something holds that the page says over another connection than the debugger's. */
async function until(what, holds) {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** What the page listens to. */
const FIELDS = {
  ServiceChanges: 'serviceDeploymentDelta',
  ClusterChanges: 'clusterDelta',
  StackChanges: 'infrastructureStackDelta',
};
const MANY = Object.keys(FIELDS).length;

/** The socket of changes: what a console tells there is told by the walk. */
async function socket(page) {
  const state = { connections: 0, refuses: false, subscriptions: new Map(), variables: new Map(), begun: 0 };
  await page.routeWebSocket('**/gql', (ws) => {
    state.connections += 1;
    if (state.refuses) return void ws.close({ code: 1012, reason: 'restarts' });
    ws.onMessage((text) => {
      const { type, id, payload } = JSON.parse(text);
      if (type === 'connection_init') ws.send(JSON.stringify({ type: 'connection_ack' }));
      if (type !== 'subscribe') return;
      state.begun += 1;
      const tell = (kind, content) => ws.send(JSON.stringify({ type: kind, id, payload: content }));
      state.subscriptions.set(named(payload.query), tell);
      state.variables.set(named(payload.query), payload.variables);
    });
    state.close = () => ws.close({ code: 1012, reason: 'restarts' });
  });
  let cursor = 0;
  state.tell = (name, delta) => {
    const field = FIELDS[name];
    const whole = { changed: [], deleted: [], readAgain: false, cursor: String((cursor += 1)), ...delta };
    state.subscriptions.get(name)('next', { data: { [field]: whole } });
  };
  return state;
}

const toEnd = (page, name) =>
  page.getByRole('region', { name }).evaluate((scroller) => scroller.scrollTo({ top: scroller.scrollHeight }));

/** A next page that fails is asked for once; the reader asks again. A long list is read again by its reader only. */
async function pages(url, { open, settled, judge, forgive }) {
  const page = await open();
  const { answers, times, all, answered } = await asked(page);
  await page.clock.install();
  await page.goto(`${url}/services`);
  await settled(page);
  answers.set('Services', ({ after }) => (after == null ? undefined : failed('INTERNAL')));
  let before = times('Services');
  await toEnd(page, /Services/);
  const told = page.getByRole('alert').filter({ hasText: 'Cannot read more: it broke' });
  await told.getByText('req-7').waitFor();
  for (const top of [0, 9e9, 0, 9e9]) {
    await page.getByRole('region', { name: /Services/ }).evaluate((scroller, to) => scroller.scrollTo({ top: to }), top);
    await page.clock.runFor(5000);
  }
  await all();
  assert.equal(times('Services') - before, 1, 'a page that failed is asked for again');
  // Axe finds a link too small where the sticky header covers half of its row.
  await page.getByRole('region', { name: /Services/ }).evaluate((scroller) => scroller.scrollTo({ top: 0 }));
  await judge(page, 'a list whose next page failed');
  // The same for an answer that is no GraphQL at all.
  forgive(page, 502);
  answers.set('Services', ({ after }) => (after == null ? undefined : 502));
  before = times('Services');
  await told.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Cannot read more: the console answered 502').waitFor();
  await all();
  assert.equal(times('Services') - before, 1, 'a page that failed is asked for again');
  answers.delete('Services');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('200 of 3,000').waitFor();
  await page.getByText('Cannot read more').waitFor({ state: 'detached' });

  // Beyond three pages: neither the poll, nor a look at the page, nor a change reads it again.
  for (const rows of [300, 400]) {
    await toEnd(page, /Services/);
    await page.getByText(`${rows} of 3,000`).waitFor();
  }
  const again = page.getByRole('button', { name: 'Read again' });
  await again.waitFor();
  before = times('Services');
  let counts = times('ServiceFacets');
  await page.clock.runFor(70_000);
  await until('the poll of counts', () => times('ServiceFacets') > counts);
  await answered();
  await all();
  await page.clock.runFor(10_000);
  counts = times('ServiceFacets');
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange', { bubbles: true })));
  await until('the counts when somebody looks', () => times('ServiceFacets') > counts);
  await all();
  assert.equal(times('Services') - before, 0, 'a long list is read again by itself');
  await again.click();
  await until('all four pages', () => times('Services') - before === 4);
  await page.close();
}

/** What is gone or not for one's eyes any more is not shown; what only could not be read again is, with its age. */
async function gone(url, { open, settled, judge }) {
  const page = await open();
  const { answers } = await asked(page);
  const ws = await socket(page);
  await page.goto(`${url}/services/eu-prod-0/web-0`);
  await settled(page);
  await until('all subscriptions', () => ws.begun === MANY);
  const pause = page.getByRole('button', { name: 'Pause' });
  answers.set('Service', () => failed('INTERNAL'));
  ws.tell('ServiceChanges', { changed: ['s0'] });
  await page.getByText('Cannot read again service eu-prod-0/web-0: it broke').waitFor();
  await page.getByText(/What you see is as of/).waitFor();
  await pause.waitFor();
  await judge(page, 'a service that could not be read again');
  answers.delete('Service');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText(/What you see is as of/).waitFor({ state: 'detached' });
  answers.set('Service', () => failed('NOT_FOUND', 'there is no such service'));
  ws.tell('ServiceChanges', { deleted: ['s0'] });
  await page.getByText('Cannot show service eu-prod-0/web-0: there is no such service').waitFor();
  assert.equal(await pause.count(), 0, 'a service that is gone can be paused');
  assert.equal(await page.getByRole('tab').count(), 0, 'a service that is gone is shown');
  await judge(page, 'a service that is gone');

  await page.goto(`${url}/clusters/eu-prod-0`);
  await settled(page);
  await until('all subscriptions', () => ws.begun === 2 * MANY);
  answers.set('Cluster', () => failed('FORBIDDEN', 'you may not see it'));
  ws.tell('ClusterChanges', { changed: ['c0'] });
  await page.getByText('Cannot show cluster eu-prod-0: you may not see it').waitFor();
  assert.equal(await page.getByRole('tab').count(), 0, 'a cluster that one may not see is shown');

  for (const [path, name, what] of [
    ['/services', 'Services', 'services'],
    ['/clusters', 'Clusters', 'clusters'],
    ['/audit', 'Audits', 'the audit log'],
    ['/settings/repositories', 'Repositories', 'repositories'],
  ]) {
    answers.delete(name);
    await page.clock.install();
    await page.goto(url + path);
    await settled(page);
    await page.getByRole('table').waitFor();
    answers.set(name, () => failed('FORBIDDEN', 'the right was revoked'));
    // Rows of which the socket tells are read again after six minutes at most.
    await page.clock.runFor(400_000);
    await page.getByText(`Cannot show ${what}: the right was revoked`).waitFor();
    assert.equal(await page.getByRole('table').count(), 0, `${path} is shown without the right`);
  }
  await page.close();
}

/** A console that is away for long is tried every half minute, and at once when the network or the reader is back. */
async function away(url, { open, settled }) {
  const page = await open();
  const ws = await socket(page);
  ws.refuses = true;
  await page.clock.install();
  await page.goto(`${url}/services`);
  await settled(page);
  await until('the first try', () => ws.connections > 0);
  for (let round = 0; round < 12; round += 1) {
    const before = ws.connections;
    let waited = 0;
    await until('another try', async () => {
      if (ws.connections > before) return true;
      await page.clock.runFor(1000);
      waited += 1;
      return false;
    });
    // Half a minute, and what the news of it takes to get here.
    assert.ok(waited < 45, `round ${round}: the next try comes after ${waited} seconds`);
  }
  for (const event of ['online', 'visibilitychange']) {
    const before = ws.connections;
    await until(`a try when ${event}`, async () => {
      await page.evaluate((name) => {
        (name === 'online' ? window : document).dispatchEvent(new Event(name, { bubbles: true }));
      }, event);
      return ws.connections > before;
    });
  }
  ws.refuses = false;
  await page.evaluate(() => window.dispatchEvent(new Event('online')));
  await page.clock.runFor(31_000);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.close();
}

/** A change has read again what it names, and lists by and by; what was missed is read again. */
async function changes(url, { open, settled }) {
  const page = await open();
  const { times, all, answered } = await asked(page);
  const ws = await socket(page);
  await page.clock.install();
  await page.goto(`${url}/services/eu-prod-0/web-0?tab=configuration`);
  await settled(page);
  await until('all subscriptions', () => ws.begun === MANY);
  ws.tell('ServiceChanges', {});
  await page.clock.runFor(3000);
  await answered();
  const names = ['Service', 'ServiceHistory', 'ServiceConfigurationOf', 'SyncWindows'];
  const seen = () => names.map(times);
  let before = seen();
  for (const other of ['s1', 's2', 's3']) {
    ws.tell('ServiceChanges', { changed: [other] });
    await page.clock.runFor(1000);
  }
  await all();
  assert.deepEqual(seen(), before, 'changes of others have a service read again');
  ws.tell('ServiceChanges', { changed: ['s0'] });
  await until('the service', () => times('Service') === before[0] + 1);
  await until('its history', () => times('ServiceHistory') === before[1] + 1);
  await all();
  assert.equal(times('ServiceConfigurationOf'), before[2], 'its configuration is read again');

  // A subscription that begins anew without its cursor: what changed in between is read again with its first event.
  await answered();
  before = seen();
  ws.subscriptions.get('ServiceChanges')('error', [{ message: 'the cursor is too old' }]);
  await until('another subscription', async () => {
    await page.clock.runFor(11_000);
    return ws.begun === MANY + 1;
  });
  assert.equal(ws.variables.get('ServiceChanges').after, undefined);
  ws.tell('ServiceChanges', {});
  await until('the service', async () => {
    await page.clock.runFor(1000);
    return times('Service') > before[0];
  });
  assert.equal(times('ServiceConfigurationOf'), before[2], 'its configuration is read again');

  // Something changes each second: lists and counts are read again at most every ten seconds.
  await page.goto(`${url}/services`);
  await settled(page);
  await until('all subscriptions', () => ws.begun === 2 * MANY + 1);
  ws.tell('ServiceChanges', {});
  await answered();
  const lists = () => times('Services') + times('ServiceFacets');
  const first = lists();
  for (let second = 0; second < 40; second += 1) {
    ws.tell('ServiceChanges', { changed: [`s${second + 500}`] });
    await page.clock.runFor(1000);
    await all();
  }
  const read = lists() - first;
  // Rows in 40 seconds and the little that passed meanwhile: five times at most. Counts once, or twice.
  assert.ok(read >= 4, `lists are not read again: ${read}`);
  assert.ok(read <= 8, `lists are read again too often: ${read}`);
  await page.close();
}

/** Of stacks: what a change names is read again at once, the pages of its runs too, and lists by and by. */
async function runs(url, { open, settled }) {
  const page = await open();
  const { times, all, answered } = await asked(page);
  const ws = await socket(page);
  await page.clock.install();
  let pages = 0;
  for (const [path, name] of [
    ['/stacks/network-0', 'Stack'],
    ['/stacks/network-0/runs/st0-r12', 'StackRun'],
  ]) {
    await page.goto(url + path);
    await settled(page);
    pages += 1;
    await until('all subscriptions', () => ws.begun === pages * MANY);
    await answered();
    const before = times(name);
    ws.tell('StackChanges', { changed: ['st1'] });
    await all();
    assert.equal(times(name), before, `${name}: a change of another stack has it read again`);
    const told = Date.now();
    ws.tell('StackChanges', { changed: ['st0'] });
    await until(name, () => times(name) > before);
    // A run that waits is asked for every ten seconds anyway.
    assert.ok(Date.now() - told < 8000, `${name} is read again, but not because of what was told`);
  }
  await page.goto(`${url}/stacks`);
  await settled(page);
  pages += 1;
  await until('all subscriptions', () => ws.begun === pages * MANY);
  await answered();
  const before = times('Stacks');
  ws.tell('StackChanges', { changed: ['st1'] });
  // Sooner than it would be by itself.
  for (let waited = 0; waited < 10_000 && times('Stacks') === before; waited += 500) {
    await page.clock.runFor(500);
    await all();
  }
  assert.ok(times('Stacks') > before, 'the list is not read again');
  await page.close();
}

/** Keys: typed while the address follows; pressed in a dialog above a table. What a tab's address holds besides. */
async function typed(url, { open, settled, judge }) {
  const page = await open();
  // Types on after the box told the address and before the page is drawn with it.
  await page.addInitScript(() => {
    const { get, set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
    const written = (window.written = []);
    Object.defineProperty(HTMLInputElement.prototype, 'value', {
      configurable: true,
      get,
      set(text) {
        written.push(text);
        set.call(this, text);
      },
    });
    const { replaceState } = History.prototype;
    History.prototype.replaceState = function (...given) {
      replaceState.apply(this, given);
      if (!/[?&]q=w$/.test(String(given[2]))) return;
      // The page is drawn with this address a moment later.
      queueMicrotask(() => {
        const box = document.querySelector('input[type=search]');
        set.call(box, 'web-20');
        box.dispatchEvent(new Event('input', { bubbles: true }));
      });
    };
  });
  await page.goto(`${url}/services`);
  await settled(page);
  const box = page.getByRole('searchbox', { name: 'Search by name' });
  await box.pressSequentially('w');
  await page.waitForURL(/q=web-20/);
  assert.equal(await box.inputValue(), 'web-20', 'what was typed meanwhile is lost');
  assert.deepEqual(await page.evaluate(() => window.written), [], 'what was typed meanwhile is written over for a moment');
  // The address still leads: a link, or back.
  await page.getByRole('link', { name: 'Services', exact: true }).first().click();
  await page.waitForFunction(() => document.querySelector('input[type=search]').value === '');

  await page.goto(`${url}/settings/saved-views`);
  await settled(page);
  await page.getByRole('table').getByRole('button', { name: 'Delete' }).first().click();
  await page.getByRole('dialog').getByText('plural cd saved-views delete').waitFor();
  await judge(page, 'a dialog');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).focus();
  for (const key of ['j', 'k', 'ArrowDown']) await page.keyboard.press(key);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  assert.ok(await page.evaluate(() => document.activeElement.closest('[role=dialog]') !== null), 'a key in a dialog moves rows');

  await page.goto(`${url}/services/eu-prod-0/web-0?state=FAILED&object=web`);
  await settled(page);
  await page.getByRole('tab', { name: 'Changes' }).click();
  await page.waitForURL(/tab=changes/);
  assert.match(page.url(), /state=FAILED/, 'another tab forgets the filter');
  assert.match(page.url(), /object=web/, 'another tab forgets the search');
  await page.close();
}

/** The palette says that it searches, and that it could not. */
async function palette(url, { open, settled, judge }) {
  const page = await open();
  const { answers } = await asked(page);
  await page.goto(`${url}/`);
  await settled(page);
  let release;
  answers.set('Clusters', () => new Promise((resolve) => (release = () => resolve(failed('INTERNAL')))));
  answers.set('Services', () => failed('INTERNAL', 'no services today'));
  await page.keyboard.press('Control+k');
  const box = page.getByRole('combobox', { name: /Go to/ });
  assert.equal(await box.getAttribute('aria-expanded'), 'true');
  await box.fill('zzz');
  await page.getByText('Searching…').waitFor();
  assert.equal(await page.getByText('Nothing has this in its name.').count(), 0, 'found nothing before it looked');
  await page.getByText('Cannot search services: no services today').waitFor();
  await until('the search for clusters', () => release !== undefined);
  release();
  await page.getByText('Cannot search clusters: it broke').waitFor();
  assert.equal(await page.getByText('Nothing has this in its name.').count(), 0, 'found nothing where it could not look');
  assert.equal(await box.getAttribute('aria-expanded'), 'false');
  await judge(page, 'the palette that could not search');
  answers.clear();
  await page.getByRole('button', { name: 'Try again' }).first().click();
  await page.getByRole('button', { name: 'Try again' }).last().click();
  await page.getByText('Nothing has this in its name.').waitFor();
  await page.close();
}

/** A script that does not come leaves the frame of the page: it says so. */
async function started(url, { open, judge, forgive }) {
  const page = await open();
  forgive(page);
  await page.route('**/assets/*.js', (route) => route.abort());
  await page.goto(`${url}/`);
  await page.getByRole('alert').filter({ hasText: 'The web console could not start' }).waitFor();
  await judge(page, 'a page whose script does not come');
  await page.close();
}

/** With a world of 3 000 services. */
export async function faults(url, walk) {
  await started(url, walk);
  await pages(url, walk);
  await gone(url, walk);
  await away(url, walk);
  await changes(url, walk);
  await runs(url, walk);
  await typed(url, walk);
  await palette(url, walk);
}
