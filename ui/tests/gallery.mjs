// Pictures of every page of the web console on a made world, and a page that shows them all. Fails when a page shows that something
// failed, scrolls sideways, or has the browser complain; the pictures are there all the same.
//
//   gallery.mjs FOLDER [PAGE…] [--rows 0,3,3000] [--sizes 1280x800,…] [--schemes light,dark]    these pages, or all: see gallery/pages.mjs
//   gallery.mjs docs FOLDER [PAGE…]                                                              those that the documentation shows
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { browser, open, overhang, problems, settled } from './browser.mjs';
import { MOST, shown } from './gallery/docs.mjs';
import { kubernetes } from './gallery/kubernetes.mjs';
import { missing, pages } from './gallery/pages.mjs';
import { smaller } from './gallery/png.mjs';
import { sheet } from './gallery/sheet.mjs';
import { serve } from './world.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rows: { type: 'string' }, sizes: { type: 'string' }, schemes: { type: 'string' } },
});
const isForDocs = positionals[0] === 'docs';
const [folder, ...names] = isForDocs ? positionals.slice(1) : positionals;
const NARROW = 600;

/** Pages, how many rows, how wide, light or dark. */
function wanted() {
  const all = isForDocs ? shown : pages;
  const unknown = names.filter((name) => !all.some((page) => page.name === name));
  if (unknown.length > 0)
    throw new Error(`no page is named ${unknown.join(', ')}: one of ${all.map(({ name }) => name).join(', ')}`);
  const some = names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
  const sizes = values.sizes ?? (isForDocs ? '1280x800' : '1280x800,1920x1080,390x844');
  const schemes = values.schemes ?? (isForDocs ? 'light' : 'light,dark');
  const rows = values.rows?.split(',').map(Number) ?? [0, 3, 3000];
  return {
    some,
    rows,
    looks: sizes.split(',').flatMap((size) => schemes.split(',').map((scheme) => ({ size, scheme }))),
  };
}

/** Nothing is read any more and nothing moves. */
async function still(page) {
  await settled(page);
  // The loader of a button leaves with a transition.
  await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => undefined))));
  // Editors, graphs and charts are drawn in the frames after what they show was read.
  await page.waitForLoadState('load');
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** What is wrong with what the page shows. */
async function judge(page, name, isAbsent) {
  const faults = await page.locator('[data-fault]').allInnerTexts();
  for (const fault of faults) problems.push(`${name}: shows “${fault.split('\n')[0]}”`);
  const none = await page.getByRole('heading', { level: 1, name: 'There is no such page' }).count();
  if (none > 0 !== isAbsent) problems.push(`${name}: ${none > 0 ? 'there is no such page' : 'there is such a page'}`);
  const wide = await overhang(page);
  if (wide > 0) problems.push(`${name}: ${wide} px wider than the window`);
}

async function takeAll({ some, rows, looks }) {
  const pictures = [];
  for (const count of new Set(isForDocs ? some.flatMap((page) => page.rows) : rows)) {
    const isPlain = isForDocs;
    const console_ = await serve(count, { isPlain, kubernetes: kubernetes(count, { isPlain }) });
    for (const { size, scheme } of looks) {
      const [width, height] = size.split('x').map(Number);
      const page = await open({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' });
      for (const { name, path, until, isMain = false, isAbsent = false, rows: own = [0, 3, 3000] } of some) {
        if (!own.includes(count) || (width <= NARROW && !isMain && names.length === 0)) continue;
        const before = problems.length;
        const title = `${name}, ${count} rows, ${size}, ${scheme}`;
        const file = isForDocs ? `${name}.png` : `${name}-${count}-${size}-${scheme}.png`;
        try {
          await page.goto(console_.url + path);
          await still(page);
          if (until !== undefined && count > 0) await page.getByText(until).first().waitFor();
          await judge(page, title, isAbsent);
        } catch (error) {
          problems.push(`${title}: ${error}`);
        }
        // What the browser complained of meanwhile has an address and no name.
        for (let at = before; at < problems.length; at += 1)
          if (!problems[at].startsWith(title)) problems[at] = `${title}: ${problems[at]}`;
        const picture = await page.screenshot();
        const kept = isForDocs ? smaller(picture) : picture;
        writeFileSync(join(folder, file), kept);
        pictures.push({ page: name, rows: count, look: `${size}, ${scheme}`, file });
        if (isForDocs && kept.length > MOST) problems.push(`${title}: ${kept.length} bytes, more than ${MOST}`);
      }
      await page.close();
    }
    console_.close();
  }
  return pictures;
}

try {
  if (folder === undefined) throw new Error('gallery.mjs FOLDER [PAGE…], or gallery.mjs docs FOLDER [PAGE…]');
  for (const route of missing()) problems.push(`${route} has no page in tests/gallery/pages.mjs`);
  mkdirSync(folder, { recursive: true });
  const pictures = await takeAll(wanted());
  if (!isForDocs) sheet(folder, pictures, problems);
  console.error(`${pictures.length} pictures in ${folder}`);
} catch (error) {
  problems.push(error.stack ?? String(error));
} finally {
  await browser.close();
}
for (const problem of problems) console.error(problem);
process.exit(problems.length === 0 ? 0 : 1);
