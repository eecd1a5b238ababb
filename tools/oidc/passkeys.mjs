// A browser with a virtual authenticator that adds a passkey at a console, signs in with it, and with a one-time code.
//
//   CONSOLE   origin, as the console knows itself: http://localhost
//   ADDRESS   where that really is: 127.0.0.1:PORT
//   EMAIL, PASSWORD, SECRET   of an account with a second factor; SECRET is what the app was given, in hexadecimal
//   LINK      an invitation, accepted with a passkey

import { createHmac } from 'node:crypto';

function code(secret, later = 0) {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const tag = createHmac('sha1', Buffer.from(secret, 'hex')).update(counter).digest();
  const number = tag.readUInt32BE(tag[19] & 0xf) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, '0');
}

export async function passkeys(console_url, address, email, password, secret, link) {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', `--host-resolver-rules=MAP localhost:80 ${address}`],
  });
  const seen = { problems: [] };
  try {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    page.on('console', (message) => {
      // A refused sign-in is told as such, too.
      if (message.type() === 'error' && !message.text().includes('401')) seen.problems.push(message.text());
    });
    const devtools = await context.newCDPSession(page);
    await devtools.send('WebAuthn.enable');
    const options = {
      protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
      automaticPresenceSimulation: true,
    };
    const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', { options });
    const text = () => page.locator('main').innerText();
    const out = async () => {
      await page.goto(`${console_url}/auth/account`);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByText('You are signed out here.').waitFor();
    };

    // With a password and a code.
    await page.goto(`${console_url}/auth/sign-in?then=%2Fauth%2Faccount`);
    await page.getByLabel('E-mail address').fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await page.getByLabel('Code of your authenticator app').fill(code(secret));
    await page.getByRole('button', { name: 'Sign in with a password' }).click();
    await page.waitForURL(`${console_url}/auth/account`);
    seen.with_code = await text();

    await page.getByRole('link', { name: 'Your passkeys' }).click();
    await page.getByLabel('Name, for you').fill('test key');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByRole('button', { name: 'Remove test key' }).waitFor();
    seen.listed = await text();
    const { credentials } = await devtools.send('WebAuthn.getCredentials', { authenticatorId });
    seen.credentials = credentials.map(({ isResidentCredential, rpId, signCount }) => ({ isResidentCredential, rpId, signCount }));
    // The same device is not asked for a second one.
    await page.getByLabel('Name, for you').fill('again');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    const problem = page.locator('form[data-passkey] [role=alert]');
    await problem.waitFor();
    seen.twice = await problem.innerText();
    await out();

    // With the passkey alone.
    await page.goto(`${console_url}/auth/sign-in?then=%2Fauth%2Faccount`);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL(`${console_url}/auth/account`);
    seen.with_passkey = await text();
    seen.cookies = (await context.cookies(console_url)).map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }));

    // Of a person whom the device does not know.
    await out();
    await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
    await page.goto(`${console_url}/auth/sign-in?then=%2Fauth%2Faccount`);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await problem.waitFor();
    seen.unverified = await problem.innerText();
    await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true });

    // Removed.
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL(`${console_url}/auth/account`);
    await page.goto(`${console_url}/auth/passkeys`);
    await page.getByRole('button', { name: 'Remove test key' }).click();
    await page.getByText('You have none.').waitFor();
    await out();
    await page.goto(`${console_url}/auth/sign-in?then=%2Fauth%2Faccount`);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL(`${console_url}/auth/sign-in/passkey`);
    seen.removed = await page.getByRole('alert').first().innerText();

    // An invitation, whose code stands behind the # of its link.
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(link);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.locator('#name2').fill('Grace');
    await page.getByRole('button', { name: 'Create the account with a passkey' }).click();
    await page.getByText('You can sign in as').waitFor();
    seen.invited = await text();
    seen.told = asked.filter((url) => url.includes('invite-'));
    await page.getByRole('link', { name: 'Sign in' }).click();
    await devtools.send('WebAuthn.clearCredentials', { authenticatorId }).catch(() => {});
    seen.address = page.url();

    // Without scripts.
    const plain = await browser.newContext({ javaScriptEnabled: false });
    const quiet = await plain.newPage();
    await quiet.goto(`${console_url}/auth/sign-in?then=%2Fauth%2Faccount`);
    seen.hidden = await quiet.getByRole('button', { name: 'Sign in with a passkey' }).isHidden();
    await quiet.getByLabel('E-mail address').fill(email);
    await quiet.getByLabel('Password', { exact: true }).fill(password);
    await quiet.getByLabel('Code of your authenticator app').fill(code(secret, 1));
    await quiet.getByRole('button', { name: 'Sign in with a password' }).click();
    await quiet.waitForURL(`${console_url}/auth/account`);
    seen.without_scripts = await quiet.locator('main').innerText();
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(seen));
}
