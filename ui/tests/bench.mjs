// Times what a person waits for in the web console, and prints the samples as one JSON object. `cargo xtask bench ui` runs it.
//
//   bench.mjs pages CONSOLE EMAIL PASSWORD TIMES                the shell, the first rows of all services, a search
//   bench.mjs cluster CONSOLE EMAIL PASSWORD CLUSTER TIMES      one cluster: changes that become visible, frames while all its pods are scrolled through
//   bench.mjs live CONSOLE EMAIL PASSWORD CLUSTER MINUTES       the heap of pages that are open while something changes each second
//   bench.mjs crowd CONSOLE PASSWORD DASHBOARDS EMAIL…          home pages that are open: says "ready", rests until stdin ends
import { strict as assert } from 'node:assert';
import http from 'node:http';

import { chromium } from 'playwright-core';
import WebSocket from 'ws';

const [part, origin, ...rest] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const window_ = { viewport: { width: 1280, height: 800 } };

/** The cookies of somebody who signed in. */
async function signIn(email, password) {
  const context = await browser.newContext(window_);
  const page = await context.newPage();
  await page.goto(`${origin}/auth/sign-in`);
  await page.locator('input[name=email]').fill(email);
  await page.locator('input[name=password]').fill(password);
  await page.getByRole('button').first().click();
  await page.waitForURL((at) => !at.pathname.startsWith('/auth'));
  const state = await context.storageState();
  await context.close();
  return state;
}

/** A page of a browser that has only these cookies: nothing of the console is in its cache. */
async function open(state) {
  const context = await browser.newContext({ ...window_, storageState: state });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.addInitScript(() => {
    for (const event of ['pointerdown', 'keydown'])
      globalThis.addEventListener(event, ({ timeStamp }) => (globalThis.began_ = timeStamp), true);
  });
  return page;
}

const settled = (page) =>
  page.waitForFunction(
    () => document.querySelector('h1') && !document.querySelector('[aria-busy="true"], .mantine-Button-loader'),
    undefined,
    { polling: 'raf' },
  );

/** What the function returns in the first frame in which that is something: milliseconds since the last click or key press. */
async function shown(page, seen, argument) {
  return (await page.waitForFunction(seen, argument, { polling: 'raf' })).jsonValue();
}

async function pages(email, password, times) {
  const state = await signIn(email, password);
  const seen = { paint: [], settled: [], scriptKiB: 0, click: [], load: [], search: [], rows: 0 };
  for (let at = 0; at < times; at += 1) {
    const page = await open(state);
    await page.goto(`${origin}/`);
    await settled(page);
    const whole = await page.evaluate(() => performance.now());
    // A paint is written down after its frame.
    await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
    const told = await page.evaluate(() => ({
      paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
      script: performance
        .getEntriesByType('resource')
        .filter(({ name }) => new URL(name).pathname.endsWith('.js'))
        .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
    }));
    seen.paint.push(told.paint);
    seen.settled.push(whole);
    seen.scriptKiB = Math.max(seen.scriptKiB, told.script / 1024);
    await page.getByRole('link', { name: 'Services', exact: true }).first().click();
    seen.click.push(
      await shown(
        page,
        () => document.querySelector('[aria-label="Services"] [role="cell"] a') && performance.now() - globalThis.began_,
      ),
    );
    await page.context().close();
  }
  for (let at = 0; at < times; at += 1) {
    const page = await open(state);
    await page.goto(`${origin}/services`);
    const made = await page.waitForFunction(
      () => document.querySelector('[aria-label="Services"] [role="cell"] a') && performance.now(),
      undefined,
      { polling: 'raf' },
    );
    seen.load.push(await made.jsonValue());
    await settled(page);
    if (at === 0) {
      seen.rows = Number(await page.getByRole('table', { name: 'Services' }).getAttribute('aria-rowcount')) - 1;
      const box = page.getByRole('searchbox', { name: 'Search by name' });
      for (let key = 0; key < times; key += 1) {
        // A letter after what the rows show already: none of them stays.
        await box.fill('web-00');
        await page.waitForURL(/q=web-00(&|$)/);
        await settled(page);
        await page.keyboard.press('End');
        await page.keyboard.press(String(1 + (key % 9)));
        seen.search.push(
          await shown(
            page,
            (name) => {
              const names = [...document.querySelectorAll('[aria-label="Services"] [role="row"] [role="cell"]:first-child a')];
              return (
                names.length > 0 &&
                names.every((one) => one.textContent.startsWith(name)) &&
                performance.now() - globalThis.began_
              );
            },
            `web-00${1 + (key % 9)}`,
          ),
        );
        await box.fill('web-');
        await page.waitForURL(/q=web-(&|$)/);
        await settled(page);
      }
    }
    await page.context().close();
  }
  return seen;
}

/** Asks the cluster as the page does: with the cookie and our header. */
async function ask(page, method, path, body, type = 'application/json') {
  const status = await page.evaluate(
    async ([method, path, body, type]) => {
      const headers = { 'x-plural-csrf': '1', 'content-type': type };
      return (await fetch(path, { method, headers, body: JSON.stringify(body) })).status;
    },
    [method, path, body, type],
  );
  assert.ok(status < 300, `${method} ${path}: ${status}`);
}

/** Makes the certificate of the service ready, or not ready. */
const certify = (page, cluster, isReady) =>
  ask(
    page,
    'PATCH',
    `/k8s/${cluster}/apis/cert-manager.io/v1/namespaces/bench/certificates/web/status`,
    {
      status: {
        conditions: [
          isReady
            ? { type: 'Ready', status: 'True', reason: 'Ready', message: 'issued' }
            : { type: 'Ready', status: 'False', reason: 'Failed', message: 'the issuer refused it' },
        ],
      },
    },
    'application/merge-patch+json',
  );

/** Since when the service is shown to be healthy, or not to be. */
const isHealthy = (wanted) =>
  [...document.querySelectorAll('[data-tone="good"]')].some(({ textContent }) => textContent.trim() === 'Healthy') === wanted &&
  performance.now() - globalThis.began_;

async function cluster(email, password, name, times) {
  const state = await signIn(email, password);
  const seen = { object: [], service: [], frames: [], pods: 0, firstPods: 0, allPods: 0, heapMiB: 0 };
  let page = await open(state);
  await page.goto(origin);
  // Its agent was started a moment ago.
  await page.waitForFunction(
    async (path) => (await fetch(path, { headers: { 'x-plural-csrf': '1' } })).ok,
    `/k8s/${name}/version`,
    {
      polling: 500,
    },
  );
  const maps = `/k8s/${name}/api/v1/namespaces/bench/configmaps`;
  await ask(page, 'POST', maps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'first' } });
  await page.goto(`${origin}/clusters/${name}/kubernetes?kind=configmaps&ns=bench`);
  await page.getByText('watched, as of').waitFor();
  for (let at = 0; at < times; at += 1) {
    const metadata = { name: `seen-${at}` };
    await page.evaluate(() => (globalThis.began_ = performance.now()));
    const made = ask(page, 'POST', maps, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
    });
    seen.object.push(
      await shown(
        page,
        (wanted) =>
          [...document.querySelectorAll('[role="cell"] a')].some((a) => a.textContent === wanted) &&
          performance.now() - globalThis.began_,
        metadata.name,
      ),
    );
    await made;
  }
  await page.goto(`${origin}/services/${name}/certificate`);
  await settled(page);
  for (let at = 0; at < times; at += 1) {
    const wanted = at % 2 === 0;
    await page.evaluate(() => (globalThis.began_ = performance.now()));
    await certify(page, name, wanted);
    seen.service.push(await shown(page, isHealthy, wanted));
    // Between two events of one service the feed waits for a second.
    await page.waitForTimeout(1500);
  }
  await page.context().close();

  page = await open(state);
  const began = Date.now();
  await page.goto(`${origin}/clusters/${name}/kubernetes?kind=pods`);
  const table = page.getByRole('table', { name: 'Pod' });
  await table.getByRole('link').first().waitFor();
  seen.firstPods = Date.now() - began;
  await page.getByText('watched, as of').waitFor({ timeout: 180_000 });
  seen.allPods = Date.now() - began;
  seen.pods = Number(await table.getAttribute('aria-rowcount')) - 1;
  seen.heapMiB = await heap(page);
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
  seen.frames = (await page.evaluate(() => globalThis.frames_)).slice(2);
  const scrolled = await region.evaluate((element) => element.scrollTop / element.scrollHeight);
  assert.ok(scrolled > 0.5, `scrolled through ${scrolled} of the list only`);
  await page.context().close();
  return seen;
}

/** MiB that a page's scripts hold, once what nobody holds is gone. */
async function heap(page) {
  const session = await page.context().newCDPSession(page);
  // What a finalizer lets go of is collected by the second one.
  for (let at = 0; at < 2; at += 1) await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize / 2 ** 20;
}

async function live(email, password, name, minutes) {
  const state = await signIn(email, password);
  const open_ = [];
  for (const path of ['/', `/services/${name}/certificate`, `/clusters/${name}/kubernetes?kind=pods`]) {
    const page = await open(state);
    await page.goto(origin + path);
    await settled(page);
    open_.push(page);
  }
  const pods = open_[2];
  await pods.getByText('watched, as of').waitFor({ timeout: 180_000 });
  const seen = { heap: [], changes: 0 };
  const measure = async () => {
    const all = [];
    for (const page of open_) all.push(await heap(page));
    seen.heap.push(all);
  };
  await measure();
  const began = Date.now();
  for (let at = 0; seen.heap.length <= minutes; at += 1) {
    const next = Date.now() + 1000;
    await certify(pods, name, at % 2 === 0);
    const pod = `pod-${String(at % 500).padStart(5, '0')}`;
    await ask(
      pods,
      'PATCH',
      `/k8s/${name}/api/v1/namespaces/bench/pods/${pod}`,
      { metadata: { labels: { change: String(at) } } },
      'application/merge-patch+json',
    );
    seen.changes += 2;
    if (Date.now() - began >= seen.heap.length * 60_000) await measure();
    await new Promise((done) => setTimeout(done, Math.max(0, next - Date.now())));
  }
  return seen;
}

/** Minutes of a home page in which what it asks for is written down: more than it lets pass between two reads of the same rows. */
const WATCHED = 6;

/** What a home page asks for while nobody touches it: each request of some minutes, and what it says on its socket. */
async function dashboard(state) {
  const page = await open(state);
  const requests = [];
  const frames = [];
  page.on('websocket', (socket) => socket.on('framesent', ({ payload }) => frames.push(payload)));
  await page.goto(`${origin}/`);
  await settled(page);
  // After about a minute it reads once more what may have changed before its socket told of changes.
  await page.waitForTimeout(75_000);
  page.on('request', (request) => {
    if (new URL(request.url()).pathname === '/gql') requests.push(request.postData());
  });
  await page.waitForTimeout(WATCHED * 60_000);
  await page.context().close();
  return { requests, frames: frames.filter((frame) => !/"type":"(ping|pong)"/.test(frame)) };
}

async function crowd(password, count, emails) {
  const cookies = [];
  let home;
  for (const email of emails) {
    const state = await signIn(email, password);
    home ??= await dashboard(state);
    cookies.push(state.cookies.map(({ name, value }) => `${name}=${value}`).join('; '));
  }
  await browser.close();
  assert.ok(home.frames.length >= 3, `the page said on its socket: ${home.frames}`);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  let answered = 0;
  let refused = 0;
  const post = (body, cookie) => {
    const headers = { cookie, origin, 'x-plural-csrf': '1', 'content-type': 'application/json' };
    const request = http.request(`${origin}/gql`, { method: 'POST', agent, headers }, (response) => {
      if (response.statusCode === 200) answered += 1;
      else refused += 1;
      response.resume();
    });
    request.on('error', () => (refused += 1));
    request.end(body);
  };
  let connected = 0;
  const sockets = [];
  for (let at = 0; at < count; at += 1) {
    const cookie = cookies[at % cookies.length];
    const socket = new WebSocket(`${origin.replace('http', 'ws')}/gql`, 'graphql-transport-ws', { headers: { cookie }, origin });
    sockets.push(socket);
    await new Promise((done, fail) => {
      socket.on('error', fail);
      socket.on('close', (code) => fail(new Error(`closed: ${code}`)));
      socket.on('message', (data) => {
        const { type } = JSON.parse(data);
        if (type === 'ping') socket.send('{"type":"pong"}');
        if (type !== 'connection_ack') return;
        for (const frame of home.frames.slice(1)) socket.send(frame);
        connected += 1;
        done();
      });
      socket.on('open', () => socket.send(home.frames[0]));
    });
  }
  // Pages that were opened at different times ask at different times, each of them all of it in as many minutes as it was watched.
  const all = count * home.requests.length;
  const began = Date.now();
  let asked = 0;
  const timer = setInterval(() => {
    // By the clock: the timer of this process is late when the machine is busy.
    const due = ((Date.now() - began) / (WATCHED * 60_000)) * all;
    for (; asked < due; asked += 1) {
      // Not the same request to the same person each time.
      const page = Math.floor(asked / Math.max(1, home.requests.length));
      post(home.requests[asked % home.requests.length], cookies[page % cookies.length]);
    }
  }, 20);
  console.log('ready');
  await new Promise((done) => process.stdin.on('end', done).on('data', () => undefined));
  clearInterval(timer);
  const seen = {
    connected: sockets.filter(({ readyState }) => readyState === WebSocket.OPEN).length,
    answered,
    refused,
    requests: home.requests.length / WATCHED,
  };
  assert.equal(connected, count);
  return seen;
}

let seen;
try {
  if (part === 'pages') seen = await pages(rest[0], rest[1], Number(rest[2]));
  else if (part === 'cluster') seen = await cluster(rest[0], rest[1], rest[2], Number(rest[3]));
  else if (part === 'live') seen = await live(rest[0], rest[1], rest[2], Number(rest[3]));
  else if (part === 'crowd') seen = await crowd(rest[0], Number(rest[1]), rest.slice(2));
  else throw new Error(`no such part: ${part}`);
} catch (error) {
  for (const page of browser.contexts().flatMap((context) => context.pages())) console.error(`while it showed ${page.url()}`);
  throw error;
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
process.exit(0);
