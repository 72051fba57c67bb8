// Shows the messages of a conversation.
import { build, h, visible } from './dom.mjs';
import { blocks, tree } from './markdown.mjs';
import { path, siblings } from './tree.mjs';

// MarkdownView shows a text that grows, and builds only those blocks anew that have changed.
class MarkdownView {
  constructor() {
    this.element = h('div', { class: 'answer' });
    this.sources = [];
  }

  show(text) {
    const all = blocks(visible(text));
    all.forEach((block, i) => {
      if (this.sources[i] === block.source) return;
      const old = this.element.children[i];
      const made = build(tree(block));
      if (old) old.replaceWith(made);
      else this.element.append(made);
    });
    while (this.element.children.length > all.length) this.element.lastChild.remove();
    this.sources = all.map((b) => b.source);
  }
}

// Log shows a conversation. Its actions are functions that are called with a message: edit, regenerate and choose.
export class Log {
  constructor(element, actions) {
    this.element = element;
    this.actions = actions;
    this.live = null; // the answer that is being generated
    this.key = null; // of the button that had the focus before that answer, and has not been there since
  }

  // show shows all messages of a conversation. The focus stays where it was, if what had it is still there.
  show(conversation, running) {
    const key = document.activeElement?.dataset.key;
    this.live = null;
    this.conversation = conversation;
    this.element.replaceChildren(...path(conversation).map((m) => (m.role === 'user' ? this.user(m) : this.answer(m, m === running))));
    this.toEnd();
    this.key = null;
    if (key && document.activeElement === document.body) this.focus(key);
    if (key && document.activeElement === document.body) this.key = key;
  }

  focus(key) {
    this.element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  toEnd() { this.element.scrollTop = this.element.scrollHeight; }

  user(message) {
    const text = h('div', { class: 'text' }, message.summary && 'Summarize the files. ', visible(message.text));
    const article = h('article', { class: 'user', 'aria-label': 'You' }, h('h2', null, 'You'), files(message.files), text);
    article.append(h('div', { class: 'actions' },
      h('button', { type: 'button', 'data-key': `edit:${message.id}`, click: () => this.edit(message, article) }, 'Edit'), this.branch(message)));
    return article;
  }

  edit(message, article) {
    const text = h('textarea', { rows: 4, 'aria-label': 'Edited message' });
    text.value = message.text;
    const close = () => { this.show(this.conversation, this.live?.message); this.focus(`edit:${message.id}`); };
    const form = h('form', {
      submit: (event) => { event.preventDefault(); this.actions.edit(message, text.value); },
      keydown: (event) => { if (event.key === 'Escape') { event.stopPropagation(); close(); } },
    }, files(message.files), text, h('div', { class: 'actions' }, h('button', { type: 'submit' }, 'Send as edited'), h('button', { type: 'button', click: close }, 'Cancel')));
    article.replaceChildren(h('h2', null, 'You'), form);
    text.focus();
  }

  answer(message, running) {
    const view = new MarkdownView();
    view.show(message.text);
    const thinking = h('details', null, h('summary', null, 'Thoughts'), h('div', { class: 'thinking' }, visible(message.thinking ?? '')));
    thinking.hidden = !message.thinking;
    const foot = h('div', null, this.foot(message, running));
    view.element.setAttribute('aria-live', 'polite');
    const progress = h('progress', { 'aria-label': 'Progress of the summary', max: 1, hidden: true });
    const article = h('article', { class: 'assistant', 'aria-label': `Answer of ${visible(message.model ?? '')}` }, h('h2', null, visible(message.model ?? '')), thinking, progress, view.element, foot);
    if (running) {
      this.live = { message, view, thinking, progress, foot };
      this.busy(true);
    }
    return article;
  }

  // busy says whether the answer still grows. Screen readers read it when it does not.
  busy(on) {
    const { element } = this.live.view;
    element.setAttribute('aria-busy', on);
    element.classList.toggle('busy', on);
  }

  // grow shows what the answer that is being generated has become.
  grow() {
    const { message, view, thinking } = this.live;
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 60;
    view.show(message.text);
    thinking.hidden = !message.thinking;
    if (message.thinking) thinking.lastChild.textContent = visible(message.thinking);
    if (atEnd) this.toEnd();
  }

  // reach shows how far a summary is, from 0 to 1.
  reach(fraction) {
    this.live.progress.hidden = false;
    this.live.progress.value = fraction;
  }

  // end shows that the answer is complete.
  end() {
    this.grow();
    this.live.progress.hidden = true;
    this.busy(false);
    this.live.foot.replaceChildren(...this.foot(this.live.message, false));
    this.live = null;
    if (this.key && document.activeElement === document.body) this.focus(this.key);
    this.toEnd();
  }

  foot(message, running) {
    if (running) return [];
    return [
      message.error && h('p', { class: 'wrong', role: 'alert' }, visible(message.error)),
      h('div', { class: 'actions' },
        h('button', { type: 'button', 'data-key': `again:${message.parent}`, click: () => this.actions.regenerate(message) }, 'Regenerate'),
        h('button', { type: 'button', 'data-key': `copy:${message.id}`, click: () => this.actions.copy(message) }, 'Copy'),
        this.branch(message), h('span', { class: 'facts' }, [message.end, message.facts].filter(Boolean).join(' · '))),
    ].filter(Boolean);
  }

  // branch returns the buttons that show the siblings of a message.
  branch(message) {
    const all = siblings(this.conversation, message);
    if (all.length < 2) return null;
    const at = all.indexOf(message.id);
    const what = message.role === 'user' ? 'version' : 'answer';
    const button = (step, sign, name) => h('button', {
      type: 'button', 'aria-label': name, 'data-key': `${name}:${message.parent}`, disabled: !all[at + step], click: () => this.actions.choose(message, step),
    }, sign);
    return h('span', { class: 'branch', role: 'group', 'aria-label': `${what} ${at + 1} of ${all.length}` },
      button(-1, '‹', `Previous ${what}`), h('span', null, `${at + 1}/${all.length}`), button(1, '›', `Next ${what}`));
  }
}

function files(list) {
  if (!list?.length) return null;
  return h('ul', { class: 'files', 'aria-label': 'Files' }, list.map((f) => h('li', null, visible(f.name))));
}
