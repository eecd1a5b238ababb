// Taking away what was generated with secret answers, on the made world: it is looked at and planned once they are given, with those that are
// given, and a look at others is none at these.
import { strict as assert } from 'node:assert';

import { judge, open, settled } from './browser.mjs';

export async function uninstall(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  const sent = (name) =>
    asked.filter((body) => body.includes(`mutation ${name}(`)).map((body) => JSON.parse(body).variables.context);
  await page.goto(`${url}/settings/pr-instances/pi0`);
  await settled(page);
  await page.getByRole('button', { name: 'Uninstall', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Give its secret answers, as they were, to see what would change.').waitFor();
  const looks = dialog.getByRole('button', { name: 'Show what would change', exact: true });
  const found = dialog.getByText(/^\d+ files? would change$/);
  await dialog
    .getByLabel(/^token/)
    .first()
    .fill('one');
  assert.equal(await looks.count(), 0, 'half of the answers are enough');
  await dialog
    .getByLabel(/^old-token/)
    .first()
    .fill('two');
  assert.deepEqual(sent('PreviewPrInstanceUninstall'), [], 'it is looked at unasked');
  await looks.click();
  await found.waitFor();
  await judge(page, 'an uninstall with secret answers', '.mantine-Modal-content');
  // Other answers have another look.
  await dialog
    .getByLabel(/^token/)
    .first()
    .fill('three');
  await found.waitFor({ state: 'detached' });
  await looks.click();
  await found.waitFor();
  const [before, now] = [
    { token: 'one', 'old-token': 'two' },
    { token: 'three', 'old-token': 'two' },
  ];
  assert.deepEqual(sent('PreviewPrInstanceUninstall'), [before, now]);
  await dialog.getByRole('button', { name: 'Show what it would do', exact: true }).click();
  await dialog.getByRole('button', { name: 'Show what it would do', exact: true }).waitFor({ state: 'detached' });
  assert.deepEqual(sent('PlanPrInstanceUninstall'), [now]);
  assert.deepEqual(sent('UninstallPrInstance'), [], 'it is taken away unasked');
  await page.close();
}
