// The page: conversations with the models of the server that has sent it.
import { call, events } from './api.mjs';
import { find, h, visible } from './dom.mjs';
import { readFile } from './files.mjs';
import { Memory } from './memory.mjs';
import { Log } from './messages.mjs';
import * as store from './store.mjs';
import { add, choose, fromSession, newConversation, path, prompt, sessionName } from './tree.mjs';

const remembered = (name) => { try { return localStorage.getItem(name) ?? ''; } catch { return ''; } };
const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* until the page ends */ } };

let conversation = newConversation();
let running = null; // { conversation, message, abort }
let attached = []; // files for the next message
const memory = new Memory(() => running !== null);

const log = new Log(find('log'), {
  edit(message, text) {
    if (!running && (text.trim() || message.summary)) answer(add(conversation, message.parent, { role: 'user', text, files: message.files, summary: message.summary }));
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
  find('status').textContent = visible(text);
  find('status').classList.toggle('wrong', Boolean(wrong));
}

function show() {
  log.show(conversation, running?.message);
  find('stop').hidden = !running;
  find('send').disabled = Boolean(running);
  find('system').value = conversation.system;
  find('keep').checked = conversation.keep;
}

function showAttached() {
  find('attached').replaceChildren(...attached.map((f) => h('li', null, visible(f.name),
    h('button', { type: 'button', 'aria-label': `Remove ${visible(f.name)}`, click: () => { attached = attached.filter((g) => g !== f); showAttached(); find('attach').focus(); } }, '×'))));
  find('summarize').hidden = attached.length === 0;
}

async function attach(list) {
  report('');
  for (const file of list) {
    try {
      attached.push(await readFile(file));
    } catch (problem) {
      report(problem.message, true);
    }
  }
  showAttached();
}

const deleted = new Set();

async function save(changed) {
  if (deleted.has(changed.id)) return;
  try {
    await store.save(changed);
  } catch (problem) {
    report(`The browser could not keep the conversation: ${problem.message}`, true);
  }
}

// send sends what is in the message field, with the files that are attached. A summary needs no text.
function send(summary = false) {
  const text = find('message').value;
  if (running || !text.trim() && !summary) return;
  const files = attached;
  find('message').value = '';
  attached = [];
  showAttached();
  if (!conversation.title) conversation.title = (text.trim() || `Summary of ${files[0].name}`).split('\n')[0].slice(0, 60);
  answer(add(conversation, path(conversation).at(-1)?.id, { role: 'user', text, files, summary }));
}

const saveInterval = 3000;

// answer generates an answer to a message.
async function answer(question) {
  const here = conversation;
  const message = add(here, question.id, { role: 'assistant', text: '', thinking: '', model: find('model').value, end: 'interrupted' });
  const controller = new AbortController();
  running = { conversation: here, message, abort: () => controller.abort() };
  here.changed = Date.now();
  remember('conversation', here.id);
  show();
  report('Answering…');
  await save(here);
  listConversations();
  memory.poll();
  const started = performance.now();
  const saving = setInterval(() => save(here), saveInterval); // the page may be closed meanwhile
  try {
    if (question.summary) await summarize(message, question, controller.signal);
    else await generate(message, here, question, controller.signal);
  } catch (problem) {
    if (controller.signal.aborted) message.end = 'stopped';
    else message.error = problem.message;
  }
  clearInterval(saving);
  const seconds = (performance.now() - started) / 1000;
  running = null;
  report(message.error ? 'The answer failed.' : `Answer ${message.end} after ${seconds.toFixed(1)} s.`, message.error);
  if (log.live?.message === message) log.end();
  find('stop').hidden = true;
  find('send').disabled = false;
  await save(here);
  listSessions();
  memory.poll();
}

const ends = { stop: 'complete', length: 'cut off at its length' };

// summarize has the server summarize the files of a message. It saves the parts that it has finished, so that a summary that was
// stopped goes on where it was.
async function summarize(message, question, signal) {
  const response = await call('llmrun/summaries', {
    method: 'POST', signal,
    body: { model: message.model, name: question.files.map((f) => f.name).join(', '), text: question.files.map((f) => f.text).join('\n\n'), instructions: question.text },
  });
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error);
    if (event.summary) {
      message.text = event.summary.summary;
      message.end = 'complete';
      message.facts = `${event.summary.parts.length} parts, ${event.summary.reused_parts} of them from an earlier run`;
    } else if (event.progress) {
      const { level, part, parts, done, total } = event.progress;
      report(level === 0 ? `Summarizing part ${part} of ${parts}` : `Merging summaries, ${part} of ${parts}`);
      if (log.live?.message === message) log.reach(total > 0 ? done / total : 0);
    }
  }
}

async function generate(message, here, question, signal) {
  const temperature = find('temperature').value;
  const tokens = find('tokens').value;
  if (here.keep && !here.session) here.session = sessionName(here.title);
  const response = await call('v1/chat/completions', {
    method: 'POST', signal, headers: here.keep ? { 'X-Llmrun-Session': here.session } : {},
    body: {
      model: message.model, messages: prompt(here, question), stream: true, stream_options: { include_usage: true },
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

// listSessions lists the sessions that the server keeps, if it keeps any.
async function listSessions() {
  const { kept, sessions } = await (await call('llmrun/sessions')).json();
  find('keep-part').hidden = !kept;
  find('kept-part').hidden = sessions.length === 0;
  find('kept').replaceChildren(...sessions.map((s) => h('li', null,
    h('button', { type: 'button', disabled: Boolean(s.damage), title: s.damage ? visible(s.damage) : null, click: () => reopen(s.name) }, visible(s.name)),
    h('button', { type: 'button', 'aria-label': `Delete ${visible(s.name)} from the server`, click: () => removeSession(s.name) }, '×'))));
}

// reopen shows a session of the server: with its branches, if this browser has them.
async function reopen(name) {
  try {
    const here = running?.conversation.session === name ? running.conversation : (await store.list()).find((c) => c.session === name);
    begin(here ?? fromSession(await (await call(`llmrun/sessions/${encodeURIComponent(name)}`)).json()));
    await save(conversation);
    listConversations();
  } catch (problem) {
    report(problem.message, true);
  }
}

async function removeSession(name) {
  if (!confirm(`Delete “${visible(name)}” from the server?`)) return;
  try {
    await call(`llmrun/sessions/${encodeURIComponent(name)}`, { method: 'DELETE' });
    await listSessions();
  } catch (problem) {
    report(problem.message, true);
  }
}

async function open(id) {
  const found = running?.conversation.id === id ? running.conversation : await store.load(id);
  if (found) begin(found);
}

// begin shows a conversation.
function begin(other) {
  conversation = other;
  remember('conversation', other.id);
  show();
  listConversations();
  openMenu(false);
  find('message').focus();
}

async function remove({ id, title }) {
  if (!confirm(`Delete “${visible(title)}” from this browser?`)) return;
  if (running?.conversation.id === id) running.abort();
  deleted.add(id);
  await store.forget(id);
  if (conversation.id === id) begin(next());
  else listConversations();
}

function openMenu(on) {
  find('side').classList.toggle('open', on);
  find('menu').setAttribute('aria-expanded', on);
}

// next returns an empty conversation with the choices of the last one.
const next = () => ({ ...newConversation(), system: conversation.system, keep: conversation.keep });

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

function listenForFiles() {
  find('attach').addEventListener('click', () => find('file').click());
  find('file').addEventListener('change', () => { attach([...find('file').files]); find('file').value = ''; });
  find('summarize').addEventListener('click', () => send(true));
  const dropping = (on) => find('composer').classList.toggle('drop', on);
  const files = (event) => event.dataTransfer.types.includes('Files'); // a text that is dragged goes where it is dropped
  document.addEventListener('dragover', (event) => {
    if (!files(event)) return;
    event.preventDefault();
    dropping(true);
  });
  document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) dropping(false); });
  document.addEventListener('drop', (event) => { // the browser would show the file instead of the page
    if (!files(event)) return;
    event.preventDefault();
    dropping(false);
    attach([...event.dataTransfer.files]);
  });
}

function listen() {
  find('composer').addEventListener('submit', (event) => { event.preventDefault(); send(); });
  find('message').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  });
  find('stop').addEventListener('click', () => { running?.abort(); find('message').focus(); });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.isComposing || find('key').open) return;
    running?.abort();
    openMenu(false);
  });
  find('key-cancel').addEventListener('click', () => find('key').close());
  find('new').addEventListener('click', () => begin(next()));
  find('menu').addEventListener('click', () => openMenu(!find('side').classList.contains('open')));
  find('model').addEventListener('change', () => remember('model', find('model').value));
  find('system').addEventListener('change', () => { conversation.system = find('system').value; });
  find('keep').addEventListener('change', () => { conversation.keep = find('keep').checked; });
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
  listenForFiles();
  showDark();
  conversation = (await store.load(remembered('conversation'))) ?? conversation;
  show();
  listConversations();
  find('message').focus();
  await listModels();
  await listSessions();
}

start().catch((problem) => report(problem.message, true));
