// A page that is used without a mouse.
import { strict as assert } from 'node:assert';

import { settled } from './browser.mjs';

/** What the focus is on, in the words that a screen reader would say. */
const focused = (page) =>
  page.evaluate(() => {
    const at = document.activeElement;
    if (!at || at === document.body) return '';
    const labels = [...(at.labels ?? [])].map((label) => label.innerText);
    return [at.getAttribute('aria-label'), ...labels, at.innerText].filter(Boolean).join(' ').trim();
  });

/** Tab until the focus is on what has this name, which must be seen there. */
export async function tabsTo(page, name) {
  const passed = [];
  for (let times = 0; times < 80; times += 1) {
    const at = await focused(page);
    if (name.test(at)) return;
    passed.push(at);
    await page.keyboard.press('Tab');
  }
  assert.fail(`Tab does not come to ${name}: ${passed.join(' | ').slice(0, 2000)}`);
}

/** Presses what has this name, and waits until the dialog that it opens has the focus. */
export async function opens(page, name) {
  await tabsTo(page, name);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement?.closest('[role="dialog"]') != null);
}

export async function types(page, name, text) {
  await tabsTo(page, name);
  await page.keyboard.press('Control+a');
  await page.keyboard.type(text);
}

export async function goesTo(page, words, heading) {
  await page.keyboard.press('Control+k');
  await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'combobox');
  await page.keyboard.type(words);
  await page.getByRole('option', { selected: true, name: words }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
  await settled(page);
}

/** Chooses what has this name from the list of a field, which opens when it has the focus or an arrow is pressed. */
export async function picks(page, name, option) {
  await tabsTo(page, name);
  // What it offers may be read still, and the arrows go around.
  for (const end = Date.now() + 20_000; Date.now() < end;) {
    const at = await page.evaluate(() => document.querySelector('[role="option"][data-combobox-selected]')?.textContent ?? '');
    if (at === option) {
      await page.keyboard.press('Enter');
      await page.waitForFunction((wanted) => document.activeElement?.value === wanted, option);
      return;
    }
    await page.keyboard.press('ArrowDown');
  }
  assert.fail(`${name} does not offer ${option}`);
}
