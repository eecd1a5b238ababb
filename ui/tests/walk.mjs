// Walks through the web console as a person does, and says what it saw as one JSON object.
//
//   walk.mjs world          every page with 0, 3 and 3 000 rows of a made world: axe, CSP, hostile names, keys
//   walk.mjs console LINK   a real console: signs in by the demo's link, reads why a service fails, pauses another, signs out
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { chromium } from 'playwright-core';

import { serve } from './world.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const problems = [];

/** A page that writes down what a browser complains about: scripts that fail, and what the content security policy refuses. */
async function open(options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
  page.setDefaultTimeout(20_000);
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('WebSocket')) problems.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error}`));
  page.on('dialog', (dialog) => {
    problems.push(`${page.url()}: a script of a name ran`);
    void dialog.dismiss();
  });
  return page;
}

async function settled(page) {
  await page.locator('h1').waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .mantine-Button-loader') === null);
}

/** What axe finds serious on this page. Evaluated by the debugger, which the policy does not bind. */
async function judge(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }),
  );
  for (const { id, impact, nodes } of violations) {
    if (impact === 'serious' || impact === 'critical') problems.push(`${name}: axe ${id}: ${nodes[0].html.slice(0, 300)}`);
  }
}

const PAGES = [
  '/',
  '/clusters',
  '/clusters/eu-prod-0',
  '/services',
  '/services/eu-prod-0/web-0',
  '/services/eu-prod-0/web-0?tab=revisions',
  '/services/eu-prod-0/web-0?tab=changes',
  '/audit',
  '/settings/repositories',
];

async function made() {
  let pages = 0;
  for (const rows of [0, 3, 3000]) {
    const console_ = await serve(rows);
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [1280, 'dark'],
      [390, 'light'],
    ]) {
      if (width === 390 && rows !== 3000) continue;
      const page = await open({ viewport: { width, height: 844 }, colorScheme });
      for (const path of PAGES) {
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
    if (rows === 3000) await keys(console_.url);
    console_.close();
  }
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
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Go to/ }).fill('us-prod-10');
  await page
    .getByRole('option', { name: /us-prod-10/ })
    .first()
    .waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'us-prod-10', level: 1 }).waitFor();
  // What is shown stays when the console does not answer any more, and the page says so.
  await page.route('**/gql', (route) => route.abort());
  await page.getByRole('link', { name: 'Clusters' }).first().click();
  await page.getByText('The console cannot be reached').waitFor();
  problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes('ERR_FAILED')));
  await page.close();
}

async function real(link) {
  const page = await open();
  await page.goto(link);
  await page.getByRole('heading', { name: 'Fleet', level: 1 }).waitFor();
  assert.ok(!page.url().includes('link='), 'the code stands in the address');
  await page.getByText('Live', { exact: true }).waitFor();
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
  await page.goto(`${new URL(link).origin}/audit?action=service.*`);
  await settled(page);
  await page.getByText('service.pause').first().waitFor();
  assert.match(
    await page.getByRole('table', { name: 'Audit log' }).getByRole('row').nth(1).innerText(),
    /service\.pause/,
    'newest first',
  );
  await page.getByRole('button', { name: 'Your account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.waitForURL(/auth/);
  await page.goto(`${new URL(link).origin}/services`);
  await page.waitForURL(/auth\/sign-in/);
  problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes('401')));
  return { why };
}

const [what, link] = process.argv.slice(2);
let seen = {};
try {
  seen = what === 'console' ? await real(link) : await made();
} catch (error) {
  problems.push(String(error));
} finally {
  await browser.close();
}
console.log(JSON.stringify({ ...seen, problems }));
process.exit(problems.length === 0 ? 0 : 1);
