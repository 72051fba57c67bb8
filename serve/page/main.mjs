// The page: conversations with the models of the server that has sent it.
import { call, events } from './api.mjs';
import { find, h, visible } from './dom.mjs';
import { Log } from './messages.mjs';
import * as store from './store.mjs';
import { add, choose, newConversation, path, prompt } from './tree.mjs';

const remembered = (name) => { try { return localStorage.getItem(name) ?? ''; } catch { return ''; } };
const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* until the page ends */ } };

let conversation = newConversation();
let running = null; // { conversation, message, abort }

const log = new Log(find('log'), {
  edit(message, text) {
    if (!running && text.trim()) answer(add(conversation, message.parent, { role: 'user', text, files: message.files }));
  },
  regenerate(message) {
    if (!running) answer(conversation.messages[message.parent]);
  },
  choose(message, step) {
    choose(conversation, message, step);
    show();
    save(conversation);
  },
  async copy(message) {
    try {
      await navigator.clipboard.writeText(message.text);
      report('Copied.');
    } catch {
      report('The browser does not let this page copy.', true);
    }
  },
});

function report(text, wrong) {
  find('status').textContent = text;
  find('status').classList.toggle('wrong', Boolean(wrong));
}

function show() {
  log.show(conversation, running?.message);
  find('stop').hidden = !running;
  find('send').disabled = Boolean(running);
  find('system').value = conversation.system;
}

async function save(changed) {
  try {
    await store.save(changed);
  } catch (problem) {
    report(`The browser could not keep the conversation: ${problem.message}`, true);
  }
}

// send sends what is in the message field.
function send() {
  const text = find('message').value;
  if (running || !text.trim()) return;
  find('message').value = '';
  if (!conversation.title) conversation.title = text.trim().split('\n')[0].slice(0, 60);
  answer(add(conversation, path(conversation).at(-1)?.id, { role: 'user', text }));
}

// answer generates an answer to a message.
async function answer(question) {
  const here = conversation;
  const message = add(here, question.id, { role: 'assistant', text: '', thinking: '', model: find('model').value, end: 'interrupted' });
  const controller = new AbortController();
  running = { conversation: here, message, abort: () => controller.abort() };
  here.changed = Date.now();
  show();
  report('Answering…');
  await save(here);
  listConversations();
  const started = performance.now();
  try {
    await generate(message, prompt(here, question), controller.signal);
  } catch (problem) {
    if (controller.signal.aborted) message.end = 'stopped';
    else message.error = problem.message;
  }
  const seconds = (performance.now() - started) / 1000;
  running = null;
  report(message.error ? 'The answer failed.' : `Answer complete: ${message.end} after ${seconds.toFixed(1)} s.`, message.error);
  if (log.live?.message === message) log.end();
  find('stop').hidden = true;
  find('send').disabled = false;
  await save(here);
}

const ends = { stop: 'complete', length: 'cut off at its length' };

async function generate(message, messages, signal) {
  const temperature = find('temperature').value;
  const tokens = find('tokens').value;
  const response = await call('v1/chat/completions', {
    method: 'POST', signal,
    body: {
      model: message.model, messages, stream: true, stream_options: { include_usage: true },
      ...(temperature !== '' && { temperature: Number(temperature) }), ...(tokens !== '' && { max_tokens: Number(tokens) }),
    },
  });
  const grow = slowly(() => { if (log.live?.message === message) log.grow(); });
  let first;
  for await (const event of events(response)) {
    if (typeof event === 'string') { report(`Reading the ${event}`); continue; }
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices[0];
    if (choice?.delta.content || choice?.delta.reasoning_content) first ??= performance.now();
    message.text += choice?.delta.content ?? '';
    message.thinking += choice?.delta.reasoning_content ?? '';
    if (choice?.finish_reason) message.end = ends[choice.finish_reason] ?? choice.finish_reason;
    if (event.usage) message.facts = facts(event.usage, first);
    grow();
  }
}

function facts({ prompt_tokens: read, completion_tokens: made, prompt_tokens_details: details }, first) {
  const rate = first && made > 1 ? `, ${(made / ((performance.now() - first) / 1000)).toFixed(1)} per second` : '';
  return `${made} tokens${rate}; prompt ${read} tokens, ${details?.cached_tokens ?? 0} of them reused`;
}

// slowly returns a function that calls draw soon, but so rarely that drawing takes a small part of the time.
function slowly(draw) {
  let timer;
  let cost = 0;
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      const begin = performance.now();
      draw();
      cost = performance.now() - begin;
    }, Math.max(40, 5 * cost));
  };
}

async function listConversations() {
  const all = await store.list();
  find('conversations').replaceChildren(...all.map((c) => h('li', null,
    h('button', { type: 'button', 'aria-current': c.id === conversation.id ? 'true' : null, click: () => open(c.id) }, visible(c.title)),
    h('button', { type: 'button', 'aria-label': `Delete ${visible(c.title)}`, click: () => remove(c) }, '×'))));
}

async function open(id) {
  const found = running?.conversation.id === id ? running.conversation : await store.load(id);
  if (found) begin(found);
}

// begin shows a conversation.
function begin(next) {
  conversation = next;
  remember('conversation', next.id);
  show();
  listConversations();
  openMenu(false);
  find('message').focus();
}

async function remove({ id, title }) {
  if (!confirm(`Delete “${title}” from this browser?`)) return;
  if (running?.conversation.id === id) running.abort();
  await store.forget(id);
  if (conversation.id === id) begin(newConversation());
  else listConversations();
}

function openMenu(on) {
  find('side').classList.toggle('open', on);
  find('menu').setAttribute('aria-expanded', on);
}

async function listModels() {
  const { data } = await (await call('v1/models')).json();
  find('model').replaceChildren(...data.map((m) => h('option', { value: m.id, selected: m.id === remembered('model') }, visible(m.id))));
}

function showDark() {
  const { theme } = document.documentElement.dataset;
  const dark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  find('dark').setAttribute('aria-pressed', dark);
  return dark;
}

function listen() {
  find('composer').addEventListener('submit', (event) => { event.preventDefault(); send(); });
  find('message').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  });
  find('stop').addEventListener('click', () => { running?.abort(); find('message').focus(); });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || find('key').open) return;
    running?.abort();
    openMenu(false);
  });
  find('new').addEventListener('click', () => begin(newConversation()));
  find('menu').addEventListener('click', () => openMenu(!find('side').classList.contains('open')));
  find('model').addEventListener('change', () => remember('model', find('model').value));
  find('system').addEventListener('change', () => { conversation.system = find('system').value; });
  for (const name of ['temperature', 'tokens']) {
    find(name).value = remembered(name);
    find(name).addEventListener('change', () => remember(name, find(name).value));
  }
  find('dark').addEventListener('click', () => {
    const theme = showDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    remember('theme', theme);
    showDark();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showDark);
}

async function start() {
  listen();
  showDark();
  conversation = (await store.load(remembered('conversation'))) ?? conversation;
  show();
  listConversations();
  find('message').focus();
  await listModels();
}

start().catch((problem) => report(problem.message, true));
