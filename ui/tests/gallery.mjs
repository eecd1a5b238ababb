// Screenshots of every page: two widths, light and dark, with no, few and many rows.
//
//   gallery.mjs FOLDER [ROWS,…] [WIDTHxHEIGHT,…] [SCHEME,…]
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { serve } from './world.mjs';

const [folder, rows = '0,3,3000', sizes = '1280x800,1920x1080,390x844', schemes = 'light,dark'] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const PAGES = [
  ['home', '/'],
  ['clusters', '/clusters'],
  ['cluster', '/clusters/eu-prod-0'],
  ['services', '/services'],
  ['service', '/services/eu-prod-0/web-0'],
  ['revisions', '/services/eu-prod-0/web-0?tab=revisions'],
  ['changes', '/services/eu-prod-0/web-0?tab=changes'],
  ['configuration', '/services/eu-prod-0/web-0?tab=configuration'],
  ['audit', '/audit'],
  ['settings', '/settings/repositories'],
];
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
try {
  for (const count of rows.split(',')) {
    const console_ = await serve(Number(count));
    for (const size of sizes.split(',')) {
      const [width, height] = size.split('x').map(Number);
      for (const scheme of schemes.split(',')) {
        const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' });
        page.on('console', (message) => {
          if (message.type() === 'error' && !message.text().includes('WebSocket'))
            console.error(`${count} ${page.url()}: ${message.text()}`);
        });
        page.on('pageerror', (error) => console.error(`${count} ${page.url()}: ${error}`));
        for (const [name, path] of PAGES) {
          await page.goto(console_.url + path);
          await page.locator('h1').waitFor();
          await page.waitForFunction(() => document.querySelector('[aria-busy="true"], .mantine-Button-loader') === null);
          // The loader of a button leaves with a transition.
          await page.evaluate(() =>
            Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => undefined))),
          );
          await page.screenshot({ path: join(folder, `${name}-${count}-${size}-${scheme}.png`) });
        }
        await page.close();
      }
    }
    console_.close();
  }
} finally {
  await browser.close();
}
process.exit(0);
