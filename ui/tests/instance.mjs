// What was generated with secret answers, on the made world. Taking it away is looked at and planned once they are given, with those that are
// given, and a look at others is none at these. Values of a Secret that an upgrade brings are sent with it, and with no look at it.
import { strict as assert } from 'node:assert';

import { judge, open, settled } from './browser.mjs';

export async function instance(url) {
  await uninstalls(url);
  await upgrades(url);
}

async function uninstalls(url) {
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

async function upgrades(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  const click = async (name) => page.getByRole('button', { name, exact: true }).click();
  const fill = async (label, value) => page.getByLabel(label).first().fill(value);
  await page.goto(`${url}/upgrades/pi0`);
  await settled(page);
  await fill(/^old-token/, 'two');
  await click('Next');
  await page.getByLabel(/^name/).waitFor();
  await click('Next');
  await fill(/^token/, 'one');
  await click('Next');
  // What is left empty stays as the cluster has it: nothing is needed.
  await page.getByText(/a value that the cluster has stays as it is/).waitFor();
  await judge(page, 'values of a Secret that an upgrade brings');
  await click('Show what would change');
  await page.getByText(/Values of its Secret that are given anew: none/).waitFor();
  await click('Back');
  await fill(/^password/, 'a-value-6b1c');
  await click('Show what would change');
  await page.getByText(/Values of its Secret that are given anew: password/).waitFor();
  await page.getByText(/^plural pr upgrade pi0 .* --secret password/).waitFor();
  await page.getByLabel(/^Open it with the conflicts/).check();
  assert.ok(!asked.some((body) => body.includes('a-value-6b1c')), 'a value of a Secret is sent with a look');
  await click('Open the pull request');
  await page.waitForURL(/settings\/pull-requests\/pr3$/);
  const sent = asked.filter((body) => body.includes('mutation UpgradePrInstance('));
  assert.deepEqual(
    sent.map((body) => JSON.parse(body).variables.secrets),
    [{ password: 'a-value-6b1c' }],
  );
  await page.close();
}
