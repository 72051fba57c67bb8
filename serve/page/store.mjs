// Conversations are kept in the browser's database. Where it has none, as in some private windows, they end with the page.

const memory = new Map();
let opened;

function open() {
  opened ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open('llmrun', 1);
      request.onupgradeneeded = () => request.result.createObjectStore('conversations', { keyPath: 'id' });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
    } catch {
      resolve(null);
    }
  });
  return opened;
}

// run calls use with the object store, and returns the result of the request that it returns when it is durable.
async function run(mode, use) {
  const database = await open();
  if (!database) return undefined;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction('conversations', mode);
    const request = use(transaction.objectStore('conversations'));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

// save takes the place of what was saved of the conversation before.
export async function save(conversation) {
  memory.set(conversation.id, conversation);
  await run('readwrite', (store) => store.put(conversation));
}

export async function forget(id) {
  memory.delete(id);
  await run('readwrite', (store) => store.delete(id));
}

export async function load(id) {
  return (await run('readonly', (store) => store.get(id))) ?? memory.get(id);
}

// list returns the conversations, the last changed first.
export async function list() {
  const all = (await run('readonly', (store) => store.getAll())) ?? [...memory.values()];
  return all.sort((a, b) => b.changed - a.changed);
}
