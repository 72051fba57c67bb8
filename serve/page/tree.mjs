// A conversation is a tree of messages. Editing a message or generating an answer again adds a sibling; chosen says
// which child of a message is shown. Everything in it can be stored as it is.

export const newID = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, '0')).join('');

const root = 'root';

export function newConversation(now = Date.now()) {
  return { id: newID(), title: '', changed: now, system: '', messages: { [root]: { id: root, children: [], chosen: null } } };
}

// add adds a message behind another one, or at the beginning, and shows it.
export function add(conversation, parent, message) {
  const added = { ...message, id: newID(), parent: parent ?? root, children: [], chosen: null };
  const above = conversation.messages[added.parent];
  conversation.messages[added.id] = added;
  above.children.push(added.id);
  above.chosen = added.id;
  return added;
}

// remove removes a message that has no answers.
export function remove(conversation, message) {
  const above = conversation.messages[message.parent];
  above.children = above.children.filter((id) => id !== message.id);
  above.chosen = above.children.at(-1) ?? null;
  delete conversation.messages[message.id];
}

// path returns the messages that are shown.
export function path(conversation) {
  const shown = [];
  for (let id = conversation.messages[root].chosen; id; id = conversation.messages[id].chosen) shown.push(conversation.messages[id]);
  return shown;
}

// siblings returns the messages that could be shown instead of one, with it.
export const siblings = (conversation, message) => conversation.messages[message.parent].children;

// choose shows another sibling: the one that is so many places further.
export function choose(conversation, message, step) {
  const all = siblings(conversation, message);
  const chosen = all[all.indexOf(message.id) + step];
  if (chosen) conversation.messages[message.parent].chosen = chosen;
}

// prompt returns what the model reads to answer a message.
export function prompt(conversation, message) {
  const messages = [];
  for (let m = message; m.id !== root; m = conversation.messages[m.parent]) {
    if (m.role === 'user' || m.text) messages.unshift({ role: m.role, content: content(m) });
  }
  if (conversation.system) messages.unshift({ role: 'system', content: conversation.system });
  return messages;
}

// content returns the text of a message behind its files.
function content(message) {
  const files = (message.files ?? []).map((f) => {
    let fence = '```';
    while (f.text.includes(fence)) fence += '`';
    return `${f.name}:\n${fence}\n${f.text}\n${fence}\n\n`;
  });
  return files.join('') + message.text;
}
