// The page of llmrun in Chromium: the whole story of a conversation, with the keyboard, on a phone, for screen readers,
// and with an answer that is hostile.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium, startBrowser, startProxy, startServer } from './browser.mjs';

const skip = !chromium ? 'chromium is not installed' : !process.env.LLMRUN_PROGRAM ? 'LLMRUN_PROGRAM is not set' : false;
const most = 120_000; // milliseconds that a step may take
const pictures = process.env.LLMRUN_SCREENSHOTS; // a folder for pictures of the page

let dir, server, proxy, browser, page;
const requested = new Set();
const problems = []; // errors of scripts, and violations of the policy

// watch opens a tab that notes what it requests, and what goes wrong.
async function watch(context) {
  const tab = await context.newPage();
  tab.on('request', (r) => requested.add(new URL(r.url()).origin));
  tab.on('pageerror', (e) => problems.push(String(e)));
  tab.on('console', (m) => { if (m.type() === 'error' && !/status of 40[01]/.test(m.text())) problems.push(m.text()); });
  tab.on('dialog', (d) => { if (d.type() === 'confirm') d.accept(); else problems.push(`dialog ${d.message()}`); });
  await tab.evaluateOnNewDocument(() => {
    document.addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`));
  });
  tab.setDefaultTimeout(most);
  return tab;
}

const open = (tab = page) => tab.goto(proxy.url).then(() => tab.waitForSelector('#model option'));
const until = (what, ...args) => page.waitForFunction(what, { timeout: most, polling: 50 }, ...args);
const text = (selector, tab = page) => tab.$eval(selector, (e) => e.innerText);
const answered = () => until(() => document.querySelector('#stop').hidden && document.querySelector('.assistant:last-child .facts'));
const answers = () => page.$$eval('.answer', (all) => all.map((e) => e.innerText));
const chats = () => proxy.requests.filter((r) => r.url === '/v1/chat/completions').map((r) => JSON.parse(r.body));

async function say(words) {
  await page.focus('#message');
  await page.type('#message', words);
  await page.keyboard.press('Enter');
}

// press presses the key of a button that has the focus, as people without a mouse do.
async function press(selector, key = 'Enter') {
  await page.focus(selector);
  await page.keyboard.press(key);
}

before(async () => {
  if (skip) return;
  dir = mkdtempSync(join(tmpdir(), 'llmrun-page-'));
  server = await startServer(['--cache-dir', join(dir, 'cache')]);
  proxy = await startProxy();
  proxy.target = server.address;
  browser = await startBrowser();
  page = await watch(browser);
  await page.setViewport({ width: 1000, height: 700 });
});

after(async () => {
  await browser?.close();
  proxy?.stop();
  await server?.stop();
  if (dir) rmSync(dir, { recursive: true });
});

test('the page loads with few bytes', { skip }, async () => {
  await open();
  assert.ok(proxy.bytes > 1000 && proxy.bytes <= 100_000, `${proxy.bytes} bytes`);
  assert.equal(await page.$eval('#message', (e) => document.activeElement === e), true, 'one can begin to write');
});

test('an answer is streamed, and can be stopped', { skip }, async () => {
  proxy.holdAfter = 6;
  await say('Tell me a story about a fox.');
  await until(() => document.querySelector('.answer')?.innerText.length > 2);
  assert.equal(await page.$eval('.answer', (e) => e.getAttribute('aria-busy')), 'true');
  assert.equal(await page.$eval('#send', (e) => e.disabled), true);
  await page.keyboard.press('Escape');
  await answered();
  proxy.holdAfter = Infinity;
  assert.match(await text('.facts'), /stopped/);
  assert.equal(await page.$eval('.answer', (e) => e.getAttribute('aria-busy')), 'false');
  const [beginning] = await answers();
  assert.ok(beginning.length > 2 && beginning.length < 100, beginning);
  for (let i = 0; !server.lines.some((l) => /chat\/completions status=499/.test(l)) && i < 300; i++) await new Promise((done) => setTimeout(done, 100));
  assert.ok(server.lines.some((l) => /chat\/completions status=499/.test(l)), 'the server stops, too');
});

test('an answer is generated again, and both can be shown', { skip }, async () => {
  const [stopped] = await answers();
  await press('[data-key^="again:"]');
  await answered();
  assert.match(await page.evaluate(() => document.activeElement.dataset.key ?? ''), /^again:/, 'the focus is where it was');
  const [whole] = await answers();
  assert.match(await text('.assistant .branch'), /2\/2/);
  assert.match(await text('.facts'), /complete/);
  await press('[aria-label="Previous answer"]');
  assert.deepEqual(await answers(), [stopped]);
  assert.equal(await page.$eval('[aria-label="Next answer"]', (e) => e.disabled), false);
  await press('[aria-label="Next answer"]');
  assert.deepEqual(await answers(), [whole]);
  assert.deepEqual(chats()[1].messages, chats()[0].messages);
});

test('an earlier message is edited, which adds a branch', { skip }, async () => {
  await say('And then?');
  await answered();
  assert.equal((await answers()).length, 2);
  const before = await text('#log');
  await press('[data-key^="edit:"]');
  await page.keyboard.down('Control');
  await page.keyboard.press('a');
  await page.keyboard.up('Control');
  await page.keyboard.type('Tell me a story about a snail.');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await answered();
  assert.deepEqual(chats().at(-1).messages, [{ role: 'user', content: 'Tell me a story about a snail.' }]);
  assert.equal((await answers()).length, 1);
  assert.match(await text('.user .branch'), /2\/2/);
  await press('[aria-label="Previous version"]');
  assert.equal(await text('#log'), before.replace('Edit\n', 'Edit\n‹\n1/2\n›\n'));
  assert.equal(await page.evaluate(() => document.activeElement.closest('.user .branch, .user') !== null || document.activeElement === document.body), true);
});

test('a conversation goes on after a restart of the server, from flash', { skip }, async () => {
  await page.click('#settings summary');
  await page.click('#keep');
  await say('What happened to the fox?');
  await answered();
  const shown = await text('#log');
  await page.waitForSelector('#kept button');
  await server.stop();
  server = await startServer(['--cache-dir', join(dir, 'cache')]);
  proxy.target = server.address;
  await open();
  assert.equal(await text('#log'), shown, 'from the database of the browser');
  await page.waitForSelector('#kept button');
  await say('And the end?');
  await answered();
  const reused = Number(/(\d+) of them reused/.exec(await text('.assistant:last-child .facts'))[1]);
  assert.ok(reused >= 64, `${reused} tokens from flash`);
  await press('.assistant:last-child [data-key^="again:"]'); // another branch of the same session
  await answered();
  assert.match(await text('.assistant:last-child'), /complete/);
});

test('a session of the server is opened in another browser', { skip }, async () => {
  const context = await browser.createBrowserContext();
  const other = await watch(context);
  await open(other);
  assert.equal(await other.$('#conversations button'), null);
  await other.waitForSelector('#kept button');
  await other.click('#kept button');
  await other.waitForSelector('.answer');
  assert.deepEqual(await other.$$eval('.answer', (all) => all.map((e) => e.innerText)), await answers());
  await context.close();
});

test('a session of the server is opened while it answers', { skip }, async () => {
  const before = (await answers()).length;
  proxy.holdAfter = 6; // the answer does not end
  await say('Who else was there?');
  await until((n) => document.querySelectorAll('.answer').length > n && document.querySelector('.assistant:last-child .answer').innerText.length > 2, before);
  await press('#kept button');
  await until(() => document.activeElement.id === 'message');
  assert.equal(await page.$eval('.assistant:last-child .answer', (e) => e.getAttribute('aria-busy')), 'true', 'it is still the answer that grows');
  await page.keyboard.press('Escape');
  await answered();
  proxy.holdAfter = Infinity;
  assert.match(await text('.assistant:last-child .facts'), /stopped/);
});

test('everything is reached by the keyboard, and the focus can be seen', { skip }, async () => {
  await page.focus('.skip');
  const seen = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return e === document.body ? null : { id: e.id || e.dataset.key?.split(':')[0] || e.getAttribute('aria-label') || e.innerText, outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
    });
    if (at === null) break;
    assert.ok(at.outline, `${at.id} has a mark of the focus`);
    seen.push(at.id);
  }
  for (const id of ['model', 'dark', 'new', 'log', 'edit', 'again', 'copy', 'message', 'attach', 'send']) assert.ok(seen.includes(id), `${id} in ${seen.join(', ')}`);
  await press('#dark', 'Space');
  assert.equal(await page.$eval('#dark', (e) => e.getAttribute('aria-pressed')), 'true');
  await press('#dark', 'Space');
});

test('controls have names for screen readers', { skip }, async () => {
  const nameless = [];
  const names = [];
  await page.$$eval('#settings, #memory', (all) => all.forEach((e) => { e.open = true; }));
  const visit = (node) => {
    if (['button', 'textbox', 'combobox', 'checkbox', 'spinbutton', 'log', 'navigation', 'article', 'link', 'list'].includes(node.role)) {
      names.push(`${node.role} ${node.name}`);
      if (!node.name && node.role !== 'list') nameless.push(JSON.stringify(node));
    }
    node.children?.forEach(visit);
  };
  visit(await page.accessibility.snapshot({ interestingOnly: false }));
  assert.deepEqual(nameless, []);
  for (const name of ['textbox Message', 'combobox Model', 'button Send', 'button Dark', 'button Attach text files', 'log Conversation', 'navigation Conversations', 'article You', 'article Answer of llmrun', 'button Regenerate', 'checkbox Keep this conversation on the server, too', 'textbox Instructions for the model', 'spinbutton Temperature']) assert.ok(names.includes(name), `${name} in ${names.join('; ')}`);
  assert.equal(await page.$eval('.answer', (e) => e.getAttribute('aria-live')), 'polite');
  assert.equal(await page.$eval('#status', (e) => e.getAttribute('role')), 'status');
  await page.$$eval('#settings, #memory', (all) => all.forEach((e) => { e.open = false; }));
});

const hostile = [
  '<script>alert(1)</script><img src=x onerror=alert(2)><iframe src="https://evil.example"></iframe>',
  '![pixel](https://evil.example/x.png?secret) [click](javascript:alert(3)) [two\nlines](https://evil.example/)',
  '\u001b[31mred\u001b[0m \u202egnp.exe',
  'x'.repeat(100_000),
  '|' + ' a |'.repeat(200) + '\n|' + '-|'.repeat(200) + '\n|' + ' b |'.repeat(200),
  '```html\n<style>body { display: none }</style>' + 'y'.repeat(5000) + '\n```',
  '$\\frac{<b>1</b>}{' + '{'.repeat(200) + '$ and $$\\sqrt{x^2}$$',
  '*'.repeat(50_000),
].join('\n\n');

test('a hostile answer is text', { skip }, async () => {
  const chunk = (delta, finish_reason = null) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  proxy.replace = (url) => (url === '/v1/chat/completions' ? chunk({ role: 'assistant', content: '' }) + hostile.match(/[^]{1,8000}/g).map((part) => chunk({ content: part })).join('') + chunk({}, 'stop') + 'data: [DONE]\n\n' : undefined);
  await page.click('#new');
  await say('<b>Be hostile</b>');
  await answered();
  proxy.replace = undefined;
  const shown = await page.$eval('.answer', (e) => e.textContent);
  for (const part of ['<script>alert(1)</script><img src=x onerror=alert(2)>', '![pixel](https://evil.example/x.png?secret)', '[click](javascript:alert(3))', '␛[31mred␛[0m [U+202E]gnp.exe', 'x'.repeat(100_000), '<style>body { display: none }</style>']) assert.ok(shown.includes(part), part.slice(0, 80));
  assert.equal(await text('.user .text'), '<b>Be hostile</b>');
  const tags = new Set(await page.$$eval('#log *', (all) => all.map((e) => e.localName)));
  for (const tag of ['script', 'img', 'iframe', 'style', 'b', 'object', 'svg']) assert.ok(!tags.has(tag), tag);
  for (const tag of ['table', 'pre', 'math', 'msqrt']) assert.ok(tags.has(tag), tag);
  assert.deepEqual(await page.$$eval('#log a', (all) => all.map((e) => `${e.href} ${e.rel} ${e.innerText}`)), ['https://evil.example', 'two\nlines (https://evil.example/)'].map((name) => `https://evil.example/ noopener noreferrer nofollow ${name}`));
});

test('a phone needs no horizontal scrolling', { skip }, async () => {
  const wide = () => page.evaluate(() => [document.documentElement.scrollWidth, document.querySelector('#log').scrollWidth, document.querySelector('#side').scrollWidth]);
  await page.setViewport({ width: 360, height: 640, isMobile: true, hasTouch: true, deviceScaleFactor: 1 });
  await until(() => innerWidth === 360);
  for (const width of await wide()) assert.ok(width <= 360, `${width} pixels with a hostile answer`);
  await page.click('#menu');
  assert.equal(await page.$eval('#menu', (e) => e.getAttribute('aria-expanded')), 'true');
  for (const width of await wide()) assert.ok(width <= 360, `${width} pixels with the menu`);
  const item = await page.$eval('#conversations li:last-child button', (e) => e.getBoundingClientRect().width);
  assert.ok(item > 100, 'conversations can be chosen');
  await page.click('#conversations li:last-child button');
  await until(() => getComputedStyle(document.querySelector('#side')).display === 'none'); // when the conversation has been read
  for (const width of await wide()) assert.ok(width <= 360, `${width} pixels with a story`);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
  await page.evaluate(() => { delete document.documentElement.dataset.theme; });
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(22, 25, 28)');
  if (pictures) await page.screenshot({ path: join(pictures, 'page-phone.png') });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
  assert.equal(await page.evaluate(() => { document.querySelector('.answer').classList.add('busy'); return getComputedStyle(document.querySelector('.answer > :last-child'), '::after').animationName; }), 'none');
  await page.setViewport({ width: 1000, height: 700 });
});

test('files are attached, and summarized with progress', { skip }, async () => {
  const notes = join(dir, 'notes.txt');
  const picture = join(dir, 'pic\u202egnp.txt');
  writeFileSync(notes, 'The fox went into the wood and came back. '.repeat(30));
  writeFileSync(picture, Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0xfe]));
  await page.click('#new');
  const field = await page.$('#file');
  await field.uploadFile(notes, picture);
  await until(() => document.querySelector('#attached li'));
  await until(() => /pic\[U\+202E\]gnp\.txt is not a text/.test(document.querySelector('#status').innerText));
  assert.match(await text('#attached'), /^notes\.txt/);
  await say('Who went into the wood?');
  await answered();
  assert.match(chats().at(-1).messages[0].content, /^notes\.txt:\n```\nThe fox went[^]*```\n\nWho went into the wood\?$/);
  assert.equal(await text('.user .files'), 'notes.txt');
  assert.equal(await page.evaluate(() => {
    const words = new DataTransfer();
    words.setData('text/plain', 'dragged words');
    return document.querySelector('#message').dispatchEvent(new DragEvent('drop', { dataTransfer: words, bubbles: true, cancelable: true }));
  }), true, 'a text can be dragged into a field');
  await page.evaluate(() => {
    const files = new DataTransfer();
    files.items.add(new File(['A frog sat by the pond. '.repeat(30)], 'pond.md', { type: 'text/markdown' }));
    document.querySelector('#composer').dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true }));
  });
  await until(() => document.querySelector('#attached li'));
  await page.evaluate(() => {
    window.reports = [];
    new MutationObserver(() => window.reports.push(document.querySelector('#status').innerText)).observe(document.querySelector('#status'), { childList: true });
  });
  await press('#summarize');
  await answered();
  assert.ok((await answers()).at(-1).length > 10);
  assert.match(await text('.assistant:last-child .facts'), /complete · 1 parts, 0 of them/);
  assert.ok((await page.evaluate(() => window.reports)).includes('Summarizing part 1 of 1'));
  await press('.assistant:last-child [data-key^="again:"]');
  await answered();
  assert.match(await text('.assistant:last-child .facts'), /1 parts, 1 of them from an earlier run/);
});

test('memory and flash are shown', { skip }, async () => {
  await page.click('#memory summary');
  await until(() => /Tokens per pass/.test(document.querySelector('#memory-facts').innerText));
  const facts = await text('#memory-facts');
  assert.match(facts, /Memory\s+[\d.]+ MiB/);
  assert.match(facts, /Weights read\s+[\d.]+ [KMG]?i?B, /);
  assert.match(facts, /Tokens per pass\s+\d+\.\d\d/);
  assert.ok((await page.$$eval('#memory-bar span', (all) => all.filter((e) => e.getBoundingClientRect().width > 0).length)) > 1);
  const perPass = (all) => /Tokens per pass\s+(\S+)/.exec(all)[1];
  proxy.holdAfter = 4; // the answer does not end
  await page.click('#new');
  await say('Tell me a story about a bear.');
  await until((before) => !document.querySelector('#stop').hidden && /Tokens per pass\s+(\S+)/.exec(document.querySelector('#memory-facts').innerText)?.[1] !== before, perPass(facts));
  await page.keyboard.press('Escape');
  await answered();
  proxy.holdAfter = Infinity;
  assert.match(perPass(await text('#memory-facts')), /^\d+\.\d\d$/);
  if (pictures) {
    await page.click('#conversations li:last-child button');
    await page.screenshot({ path: join(pictures, 'page.png') });
  }
});

test('a conversation is deleted', { skip }, async () => {
  const count = (await page.$$('#conversations li')).length;
  await press('#conversations li:first-child [aria-label^="Delete"]');
  await until((n) => document.querySelectorAll('#conversations li').length === n, count - 1);
  for (let kept = (await page.$$('#kept li')).length; kept > 0; kept--) {
    await press('#kept li:first-child [aria-label^="Delete"]');
    await until((n) => document.querySelectorAll('#kept li').length === n, kept - 1);
  }
  assert.equal(await page.$eval('#kept-part', (e) => e.hidden), true);
});

test('the page asks for the key', { skip }, async () => {
  await server.stop();
  server = await startServer(['--no-kv-cache'], { LLMRUN_API_KEY: 'secret' });
  proxy.target = server.address;
  await page.goto(proxy.url);
  for (const key of ['wrong', 'secret']) {
    await page.waitForSelector('#key[open]');
    await page.type('#key-value', key);
    await page.keyboard.press('Enter');
    await until((wrong) => !document.querySelector('#key').open || wrong && document.querySelector('#key-problem').innerText, key === 'wrong');
    if (key === 'wrong') await until(() => /refused/.test(document.querySelector('#key-problem').innerText));
  }
  await page.waitForSelector('#model option');
  assert.deepEqual(await page.evaluate(() => [sessionStorage.getItem('key'), JSON.stringify(localStorage).includes('secret')]), ['secret', false]);
});

test('nothing else was requested, and nothing was refused', { skip }, () => {
  assert.deepEqual([...requested], [new URL(proxy.url).origin]);
  assert.deepEqual(problems, []);
});
