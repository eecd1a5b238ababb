// The form of an automation on the made world: it begins with what is there, sends what somebody changed and nothing else, and a merge window is
// tried while it is written.
import { strict as assert } from 'node:assert';

import { judge, open, overhang, problems, settled } from './browser.mjs';
import { automation } from './gallery/automations.mjs';

const NAME = 'automation-0';

export async function automationForm(url) {
  const page = await open();
  const asked = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  const dialog = page.getByRole('dialog');
  const group = (name) => dialog.getByRole('group', { name, exact: true });
  const begins = async (name = NAME) => {
    await page.goto(`${url}/settings/pr-automations/${name}`);
    await settled(page);
    await page.getByRole('button', { name: 'Change', exact: true }).click();
    await dialog.waitFor();
  };
  /** The attributes of the only change. */
  const sent = () => {
    const all = asked.filter((body) => body.includes('mutation UpdatePrAutomation('));
    assert.equal(all.length, 1, 'changed once');
    asked.length = 0;
    return JSON.parse(all[0]).variables.attributes;
  };
  const save = async () => {
    await dialog.getByRole('button', { name: 'Change', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    return sent();
  };

  // Nothing is changed by who changes nothing.
  await begins();
  assert.equal(await dialog.getByLabel(/^Title of its pull requests/).inputValue(), 'Add {{ context.name }}');
  assert.equal(await dialog.getByLabel(/^Labels/).inputValue(), 'infra\nteam, shop');
  assert.equal(
    await dialog
      .getByLabel(/^Governance/)
      .first()
      .inputValue(),
    'board-0',
  );
  for (const told of [
    'name: a text',
    'replicas: a whole number, or nothing, where size is so',
    'sets spec.replicas in values.yaml',
  ])
    await dialog.getByText(told, { exact: true }).waitFor();
  await judge(page, 'the form of an automation', '.mantine-Modal-content');
  assert.deepEqual(await save(), {});

  // One question is changed, and all others and what no field shows stay as they are.
  const known = automation(NAME);
  await begins();
  await group('Question 3').getByRole('button', { name: 'Open question 3' }).press('Enter');
  await page.waitForFunction(() => document.activeElement?.value === 'replicas');
  assert.equal(await group('Question 3').getByLabel(/^With/).inputValue(), 'small');
  await group('Question 3')
    .getByLabel(/^What it is about/)
    .fill('How many');
  const questions = (await save()).configuration;
  const bare = (question) => JSON.parse(JSON.stringify(question, (_, value) => value ?? undefined));
  assert.equal(questions.length, 5);
  assert.equal(questions[2].documentation, 'How many');
  assert.deepEqual(questions[2].condition, { operation: 'EQ', field: 'size', value: 'small' });
  for (const at of [0, 1, 3, 4]) {
    const { type, name, ...rest } = bare(questions[at]);
    assert.deepEqual({ type, name, ...rest }, bare(known.configuration[at]), `question ${at}`);
  }

  // The same of a part with several lists, and of what has no field.
  await begins();
  await group('Edit 1').getByRole('button', { name: 'Open edit 1' }).click();
  const edit = group('Edit 1').getByLabel(/^Edit/);
  await edit.fill('{"op": "set"');
  await group('Edit 1').getByText('Must be a JSON object').waitFor();
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  assert.ok(!asked.some((body) => body.includes('mutation UpdatePrAutomation(')), 'what is wrong is sent');
  await edit.fill('{"op": "set", "path": "spec.replicas", "value": 3}');
  await group('Template 2').getByRole('button', { name: 'Remove template 2' }).click();
  const { updates, creates, ...others } = await save();
  assert.deepEqual(others, {});
  assert.deepEqual(updates.edits[0].edit, { op: 'set', path: 'spec.replicas', value: 3 });
  assert.deepEqual(bare(updates.edits[1]), bare(known.updates.edits[1]));
  assert.deepEqual(
    [updates.yq, bare(updates.regexReplacements), bare(updates.yamlOverlays)],
    [known.updates.yq, bare(known.updates.regexReplacements), bare(known.updates.yamlOverlays)],
  );
  assert.deepEqual([bare(creates.git), bare(creates.templates)], [bare(known.creates.git), [bare(known.creates.templates[0])]]);

  // A window: days, an hour, how long, where; tried while it is written. Others keep the words that they were written in.
  await begins();
  await dialog.getByRole('button', { name: 'Add a window' }).click();
  const window = group('Window 4');
  for (const day of ['Mon', 'Tue', 'Wed']) await window.getByLabel(day, { exact: true }).uncheck();
  await window.getByLabel('Sun', { exact: true }).check();
  await window.getByLabel(/^At/).fill('25:00');
  await window.getByText('Must be a time of day').waitFor();
  await window.getByLabel(/^At/).fill('6:30');
  await window.getByLabel(/^Stays open for/).fill('8d');
  await window.getByText('Must be from one minute to seven days.').waitFor();
  await window.getByLabel(/^Stays open for/).fill('1h 30m');
  await window.getByLabel(/^Time zone/).fill('Mars');
  await window.getByText('Must be the name of a time zone').waitFor();
  await window.getByLabel(/^Time zone/).fill('Asia/Tokyo');
  await dialog.getByText('The next merge goes through in').waitFor();
  await judge(page, 'a merge window', '.mantine-Modal-content');
  const [allow, deny, late] = known.mergeWindows;
  assert.deepEqual((await save()).mergeWindows, [
    allow,
    deny,
    late,
    { kind: 'ALLOW', schedule: '30 6 * * thu-fri,sun', duration: 5400, timeZone: 'Asia/Tokyo' },
  ]);

  // The console has the last word of a schedule, and says of which window.
  await begins();
  await group('Window 2').getByRole('button', { name: 'Open window 2' }).click();
  assert.equal(
    await group('Window 2')
      .getByLabel(/^Schedule/)
      .inputValue(),
    '0 0 24 12 *',
  );
  await group('Window 2')
    .getByLabel(/^Schedule/)
    .fill('99 0 24 12 *');
  await dialog.getByText('Window 2: schedule: "99" is not a list').waitFor();
  await page.keyboard.press('Escape');

  // As much as an automation can have, folded; on a phone.
  await page.setViewportSize({ width: 390, height: 844 });
  await begins('automation-full');
  await group('Template 200').waitFor();
  assert.ok((await dialog.locator('input, textarea').count()) < 60, 'rows that nobody opened are forms');
  const wide = await overhang(page);
  if (wide > 0) problems.push(`the form of a large automation: ${wide} px wider than the window`);
  await judge(page, 'the form of a large automation', '.mantine-Modal-content');

  // And as little.
  await begins('automation-empty');
  assert.equal(
    await dialog
      .getByLabel(/^Connection to the git host/)
      .first()
      .inputValue(),
    '',
    'one that nobody may see',
  );
  assert.deepEqual(await save(), {});

  // Of one pull request: its windows alone.
  await page.setViewportSize({ width: 1280, height: 800 });
  asked.length = 0;
  await page.goto(`${url}/settings/pull-requests/pr60`);
  await settled(page);
  await page.getByRole('button', { name: 'Merge windows', exact: true }).click();
  await dialog.getByText("plural pr windows pr60 --kind allow --schedule '0 22 * * mon-fri'").waitFor();
  await dialog.getByText('The next merge goes through in').waitFor();
  await dialog.getByRole('button', { name: 'Remove window 1' }).click();
  await dialog.getByText('plural pr windows pr60 --none').waitFor();
  await dialog.getByRole('button', { name: 'Merge windows', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const [windows, ...more] = asked.filter((body) => body.includes('mutation SetPullRequestMergeWindows('));
  assert.deepEqual([JSON.parse(windows).variables, more], [{ id: 'pr60', windows: [] }, []]);
  await page.close();
}
