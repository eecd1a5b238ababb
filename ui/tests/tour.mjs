// Takes the tour for new users on a made world, and says how many steps it had as one JSON object.
//
//   tour.mjs PART    keys, mouse, phone or none: see below
import { strict as assert } from 'node:assert';

import { browser, judge, open, overhang, problems, settled } from './browser.mjs';
import { serve } from './world.mjs';

/** The title of each step, and what it names. */
const FLEET = [
  ['Your fleet', 'counts'],
  ['What fails, and why', 'failing'],
  ['Clusters', 'clusters'],
];
const FAILURE = [
  ['One failure', 'why'],
  ['What changed', 'tabs'],
  ['“Why can’t I?”', 'actions'],
];
const NONE = [
  ['Connect a cluster', 'actions'],
  ['Deploy a service', 'actions'],
];
const END = [
  ['Go anywhere', 'find'],
  ['Help', 'help'],
];
const ALL = [...FLEET, ...FAILURE, ...END];

const CARD = '[data-tour-card]';
const offer = (page) => page.getByRole('complementary', { name: 'Tour' });
const help = (page) => page.getByRole('button', { name: 'Help', exact: true });
const cards = (page) => page.locator(CARD);
const isOnHelp = (page) => page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Help');

async function palette(page) {
  await page.keyboard.press('Control+k');
  await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'combobox');
}

/** The step is told beside what it names: the ring lies on that, the card in the window, and neither on the other. */
async function stands(page, [title, names]) {
  await page.getByRole('dialog', { name: title }).waitFor();
  await settled(page);
  const holds = page.waitForFunction((what) => {
    const [ring, named, card] = ['[data-tour-ring]', `[data-tour="${what}"]`, '[data-tour-card]'].map((selector) =>
      document.querySelector(selector)?.getBoundingClientRect(),
    );
    if (!ring || !named || !card) return false;
    const isOnIt =
      ring.top >= named.top - 1 &&
      ring.left >= named.left - 1 &&
      ring.right <= named.right + 1 &&
      ring.bottom <= named.bottom + 1;
    const isInWindow = card.top >= 0 && card.left >= 0 && card.right <= innerWidth + 1 && card.bottom <= innerHeight + 1;
    const areApart = card.top >= ring.bottom || card.bottom <= ring.top || card.left >= ring.right || card.right <= ring.left;
    return isOnIt && isInWindow && areApart && ring.height >= 20;
  }, names);
  await holds.catch((error) => assert.fail(`${title}: the card does not stand beside ${names}: ${error.message}`));
  await page.waitForFunction(() => document.activeElement?.closest('[data-tour-card]') != null);
}

/** Where things of the page are, scrolled or not. */
const places = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('main h1, main [data-tour], main section')].map((element) => {
      const { left, top, width } = element.getBoundingClientRect();
      return [left, top + window.scrollY, width].map(Math.round).join();
    }),
  );

/** From the palette, with 3 000 services: forth, back, to the end. From Help: Escape ends it. */
async function keys() {
  const { url, close } = await serve(3000);
  const page = await open({ isNew: true });
  await page.goto(url);
  await settled(page);
  await offer(page).waitFor();
  assert.ok(await page.evaluate(() => document.activeElement === document.body), 'the offer takes the focus');
  await judge(page, 'the offer of the tour', 'aside');
  const before = await places(page);
  await palette(page);
  await page.keyboard.type('the tour');
  await page.getByRole('option', { name: /Take the tour/ }).waitFor();
  await page.keyboard.press('Enter');
  for (const [at, step] of ALL.entries()) {
    await stands(page, step);
    if (at === 0) assert.deepEqual(await places(page), before, 'the tour moves the page');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), at + 1 < ALL.length ? 'Next' : 'Done');
    await judge(page, `the tour at ${step[0]}`, CARD);
    if (at === 1) {
      await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await stands(page, ALL[0]);
      await page.keyboard.press('Enter');
      await stands(page, step);
      // The focus goes around in the card.
      for (let times = 0; times < 3; times += 1) {
        await page.keyboard.press('Tab');
        assert.ok(await page.evaluate(() => document.activeElement.closest('[data-tour-card]') !== null), 'Tab leaves the card');
      }
    }
    await page.keyboard.press('Enter');
  }
  await cards(page).waitFor({ state: 'detached' });
  await isOnHelp(page);
  await page.goto(url);
  await settled(page);
  assert.equal(await offer(page).count(), 0, 'who took the tour is offered it again');

  await help(page).focus();
  await page.keyboard.press('Enter');
  await page.getByText('Next and previous row; Enter opens it').waitFor();
  await judge(page, 'Help', '[role="dialog"]');
  await page.waitForFunction(() => document.activeElement?.textContent === 'Take the tour');
  await page.keyboard.press('Enter');
  await stands(page, ALL[0]);
  // The palette above it hears Escape first.
  await palette(page);
  await page.keyboard.press('Escape');
  await page.getByRole('combobox', { name: /Go to/ }).waitFor({ state: 'detached' });
  assert.equal(await cards(page).count(), 1, 'the Escape of the palette ends the tour');
  await page.keyboard.press('Escape');
  await cards(page).waitFor({ state: 'detached' });
  await isOnHelp(page);
  await page.close();
  close();
  return ALL.length;
}

/** From Help, in the dark: what is named can be used meanwhile. Declined once, it is not offered again. */
async function mouse() {
  const { url, close } = await serve(3);
  const page = await open({ isNew: true, colorScheme: 'dark' });
  await page.goto(url);
  await settled(page);
  await offer(page).getByRole('button', { name: 'Not now' }).click();
  await offer(page).waitFor({ state: 'detached' });
  await page.reload();
  await settled(page);
  assert.equal(await offer(page).count(), 0, 'who declined the tour is offered it again');
  const kept = await page.evaluate(() => Object.entries(localStorage).filter(([key]) => key.startsWith('plural-tour')));
  assert.deepEqual(kept, [['plural-tour:u', 'seen']], 'it keeps more than that');
  await page.goto(`${url}/audit`);
  await settled(page);
  await help(page).click();
  await page.getByRole('button', { name: 'Take the tour' }).click();
  for (const [at, step] of ALL.entries()) {
    await stands(page, step);
    await judge(page, `the tour in the dark at ${step[0]}`, CARD);
    if (step[1] === 'actions') {
      await page.getByRole('button', { name: 'Pause' }).click({ force: true });
      const why = page.getByText('you may read it, not change it');
      await why.waitFor();
      await page.waitForFunction(() => document.activeElement?.closest('[role="dialog"]:not([data-tour-card])') != null);
      await page.keyboard.press('Escape');
      await why.waitFor({ state: 'detached' });
      assert.equal(await cards(page).count(), 1, 'the Escape of an answer ends the tour');
    }
    if (at + 1 < ALL.length) await cards(page).getByRole('button', { name: 'Next' }).click();
  }
  // A page that somebody goes to meanwhile: the card waits in the corner, and its next step leads on.
  await cards(page).getByRole('button', { name: 'Back' }).click();
  await cards(page).getByRole('button', { name: 'Back' }).click();
  await page.getByRole('link', { name: 'Settings', exact: true }).first().click();
  await page.waitForURL(/settings/);
  await cards(page).getByRole('button', { name: 'Back' }).click();
  await stands(page, ['What changed', 'tabs']);
  await cards(page).getByRole('button', { name: 'End the tour' }).click();
  await cards(page).waitFor({ state: 'detached' });
  await isOnHelp(page);
  await page.close();
  close();
  return ALL.length;
}

/** As a sheet from edge to edge, on a phone and on a smaller one. */
async function phone() {
  const { url, close } = await serve(3);
  for (const [width, height] of [
    [390, 844],
    [320, 640],
  ]) {
    const page = await open({ isNew: true, viewport: { width, height } });
    await page.goto(url);
    await settled(page);
    await offer(page).getByRole('button', { name: 'Take the tour' }).click();
    for (const step of ALL) {
      await stands(page, step);
      const card = await cards(page).boundingBox();
      assert.ok(card.x === 0 && Math.round(card.width) === width, `${step[0]}: no sheet from edge to edge`);
      if (width === 390) {
        await judge(page, `the tour on a phone at ${step[0]}`, CARD);
        const wide = await overhang(page);
        if (wide > 0) problems.push(`the tour at ${step[0]}: ${wide} px wider than the window`);
      }
      await cards(page)
        .getByRole('button', { name: /^(Next|Done)$/ })
        .click();
    }
    await cards(page).waitFor({ state: 'detached' });
    await page.close();
  }
  close();
  return ALL.length;
}

/** Of a fleet without clusters: how to come to one. */
async function none() {
  const { url, close } = await serve(0);
  const page = await open({ isNew: true });
  await page.goto(url);
  await settled(page);
  await offer(page).getByRole('button', { name: 'Take the tour' }).click();
  const steps = [...FLEET, ...NONE, ...END];
  for (const step of steps) {
    await stands(page, step);
    await judge(page, `the tour of nothing at ${step[0]}`, CARD);
    await page.keyboard.press('Enter');
  }
  await cards(page).waitFor({ state: 'detached' });
  await page.close();
  close();
  return steps.length;
}

const PARTS = { keys, mouse, phone, none };
const [part] = process.argv.slice(2);
const seen = {};
try {
  assert(Object.hasOwn(PARTS, part), `one of ${Object.keys(PARTS).join(', ')}`);
  seen.steps = await PARTS[part]();
} catch (error) {
  problems.push(String(error.stack ?? error));
} finally {
  await browser.close();
}
console.log(JSON.stringify({ ...seen, problems }));
process.exit(problems.length === 0 ? 0 : 1);
