// A browser without a screen for one walk, and what it complains about.
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
export const problems = [];
/** The made world has no socket, and a console that stops closes its own. */
const SOCKET = /^WebSocket connection to 'ws:\/\/[^/']+\/gql' failed:/;

/** What each page may complain of, because its walk wanted it. */
const wanted = new WeakMap();

/** From here on, this page's browser may tell of answers with this status, or of none at all. Nothing else. */
export function forgive(page, status) {
  wanted
    .get(page)
    .push(
      status === undefined
        ? /^Failed to load resource: net::ERR_FAILED$/
        : new RegExp(`^Failed to load resource: the server responded with a status of ${status} `),
    );
}

/**
 * A page that writes down what a browser complains about: scripts that fail, and what the content security policy refuses. The user of
 * the made world was here before, unless he is new: the tour is offered to who is.
 */
export async function open({ isNew = false, ...options } = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
  wanted.set(page, [SOCKET]);
  page.setDefaultTimeout(20_000);
  if (!isNew) await page.addInitScript(() => localStorage.setItem('plural-tour:u', 'seen'));
  page.on('console', (message) => {
    if (message.type() === 'error' && !wanted.get(page).some((pattern) => pattern.test(message.text())))
      problems.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error}`));
  page.on('dialog', (dialog) => {
    problems.push(`${page.url()}: a script of a name ran`);
    void dialog.dismiss();
  });
  return page;
}

export async function settled(page) {
  await page.locator('h1').waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .mantine-Button-loader') === null);
}

/**
 * What axe finds serious on this page. Evaluated by the debugger, which the policy does not bind. What lies on the page and covers a
 * part of a link for as long as somebody wants is named: it is judged by all rules, the page below by all but the size of targets.
 */
export async function judge(page, name, covers) {
  await page.evaluate(axe);
  const looks =
    covers === undefined
      ? [[undefined, true]]
      : [
          [covers, true],
          [undefined, false],
        ];
  for (const look of looks) {
    let found = await faults(page, look);
    // What fades in or out is faint for a moment: what is wrong is so when all stands still, too.
    for (let turn = 0; turn < 2 && found.length > 0; turn += 1) {
      await stands(page);
      found = await faults(page, look);
    }
    for (const { id, nodes } of found) problems.push(`${name}: axe ${id}: ${nodes[0].html.slice(0, 300)}`);
  }
}

/** What axe finds serious within a part of the page, or on all of it. */
async function faults(page, look) {
  const { violations } = await page.evaluate(
    ([within, enabled]) =>
      globalThis.axe.run(within ?? document, {
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'],
        rules: { 'target-size': { enabled } },
      }),
    look,
  );
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
}

/** Waits until nothing fades or moves that comes to an end. */
async function stands(page) {
  await page.waitForFunction(() =>
    document.getAnimations().every((one) => one.playState !== 'running' || one.effect?.getTiming().iterations === Infinity),
  );
}

/** Waits until there are so many of these: what is drawn comes some frames after the words beside it. */
export async function numbers(locator, wanted, why) {
  const isThere = wanted === 0 ? undefined : locator.nth(wanted - 1).waitFor({ state: 'attached' });
  await Promise.all([isThere, locator.nth(wanted).waitFor({ state: 'detached' })]).catch(() => undefined);
  assert.equal(await locator.count(), wanted, why);
}

/** How much wider than its window the page is, in pixels. */
export function overhang(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}

/**
 * Plays the steps of one part of a day, each of which stands on those before it, writes what was seen as one JSON object, and ends the
 * program. With PICTURES, a step that fails leaves one in that folder.
 */
export async function play(day, parts, part, seen, newPage) {
  try {
    assert(Object.hasOwn(parts, part), `one of ${Object.keys(parts).join(', ')}`);
    const page = await newPage();
    for (const [name, step] of Object.entries(parts[part])) {
      try {
        await step(page);
      } catch (error) {
        problems.push(`${name}: ${error.stack ?? error}`);
        const { PICTURES } = process.env;
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `${day}-${part}-${name}.png`) }).catch(() => undefined);
        // What follows stands on it.
        break;
      }
      seen.steps.push(name);
    }
  } catch (error) {
    problems.push(String(error.stack ?? error));
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify({ ...seen, problems }));
  process.exit(problems.length === 0 ? 0 : 1);
}
