// Requests to the server that has sent the page, and to no other.
import { find } from './dom.mjs';

const saved = (name) => { try { return sessionStorage.getItem(name); } catch { return null; } };
let key = saved('key') ?? '';

// askKey asks for the API key, which the browser forgets with the tab.
function askKey() {
  const dialog = find('key');
  find('key-problem').textContent = key ? 'The server refused that key.' : '';
  find('key-value').value = '';
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve, reject) => {
    dialog.addEventListener('close', () => {
      if (dialog.returnValue !== 'ok') { reject(new Error('the server needs a key')); return; }
      key = find('key-value').value.trim();
      try { sessionStorage.setItem('key', key); } catch { /* it is asked for again */ }
      resolve();
    }, { once: true });
  });
}

let asking; // several requests may learn at the same time that a key is needed

// call sends a request and returns its response, which is a good one.
export async function call(path, { method = 'GET', body, headers = {}, signal } = {}) {
  for (;;) {
    const used = key;
    const response = await fetch(path, {
      method, signal, credentials: 'omit', redirect: 'error',
      headers: { ...headers, ...(key && { Authorization: `Bearer ${key}` }), ...(body && { 'Content-Type': 'application/json' }) },
      body: body && JSON.stringify(body),
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new Error(await problemOf(response));
    if (used === key) await (asking ??= askKey().finally(() => { asking = undefined; }));
  }
}

async function problemOf(response) {
  try {
    const { error } = await response.json();
    return error.message ?? error;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

// events yields the values of server-sent events, and their comments as texts.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === 'data: [DONE]') return;
      if (line.startsWith('data: ')) yield JSON.parse(line.slice(6));
      else if (line.startsWith(': ')) yield line.slice(2);
    }
  }
}
