// Markdown as models write it: headings, paragraphs, lists, quotes, tables, code, emphasis, links and math. HTML and
// images stay text. A tree is a text or [tag, attributes, ...children], as dom.mjs builds it. All of it takes time in
// proportion to the length of the text, whatever the text is.
import { math } from './math.mjs';

// maxDepth bounds how deep quotes, lists and emphasis nest; what is deeper stays text.
const maxDepth = 16;

const fenceStart = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/;

const isBlank = (line) => line.trim() === '';
const isHeading = (line) => /^ {0,3}#{1,6}(?:[ \t]|$)/.test(line);
const isQuote = (line) => /^ {0,3}>/.test(line);
const isMath = (line) => /^ {0,3}(?:\$\$|\\\[)/.test(line);

function isRule(line) {
  const marks = line.replaceAll(' ', '');
  return marks.length >= 3 && '-*_'.includes(marks[0]) && !line.startsWith('    ') && marks === marks[0].repeat(marks.length);
}

const isDivider = (line) => line.length < 5000 && line.includes('-') && line.includes('|') && /^[ \t|:-]+$/.test(line);
const isTable = (lines, i) => lines[i].includes('|') && i + 1 < lines.length && isDivider(lines[i + 1]);

// startsBlock reports whether a line ends the paragraph before it.
function startsBlock(lines, i) {
  const line = lines[i];
  const list = item.exec(line);
  return isHeading(line) || isQuote(line) || isMath(line) || isRule(line) || fenceStart.test(line) || isTable(lines, i) ||
    list != null && list[0].length < line.length && (list[2].length === 1 || /^1[.)]/.test(list[2]));
}

// blocks divides a text. The source of a block tells whether a block that was built before has changed.
export function blocks(text) {
  const lines = text.split('\n');
  const all = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) { i++; continue; }
    const [kind, end] = blockAt(lines, i);
    all.push({ kind, lines: lines.slice(i, end), source: kind + '\n' + lines.slice(i, end).join('\n') });
    i = end;
  }
  return all;
}

// blockAt returns the kind of the block that begins at a line, and the line behind it.
function blockAt(lines, i) {
  const line = lines[i];
  const fence = fenceStart.exec(line);
  if (fence) return ['code', endOfCode(lines, i + 1, fence[1])];
  if (isMath(line)) return ['math', endOfMath(lines, i)];
  if (isHeading(line)) return ['heading', i + 1];
  if (isRule(line)) return ['rule', i + 1];
  if (isQuote(line)) return ['quote', skip(lines, i, (at) => isQuote(lines[at]))];
  if (item.test(line)) return ['list', endOfList(lines, i)];
  if (isTable(lines, i)) return ['table', skip(lines, i + 2, (at) => lines[at].includes('|'))];
  return ['paragraph', skip(lines, i + 1, (at) => !isBlank(lines[at]) && !startsBlock(lines, at))];
}

function skip(lines, i, belongs) {
  while (i < lines.length && belongs(i)) i++;
  return i;
}

function endOfCode(lines, i, fence) {
  const end = skip(lines, i, (at) => !isEndOfCode(lines[at], fence));
  return Math.min(end + 1, lines.length);
}

function isEndOfCode(line, fence) {
  const marks = line.trim();
  return marks.length >= fence.length && marks === fence[0].repeat(marks.length);
}

function endOfMath(lines, i) {
  const mark = lines[i].trim().startsWith('$$') ? '$$' : '\\]';
  if (lines[i].trim().indexOf(mark, 2) > 0) return i + 1;
  const end = skip(lines, i + 1, (at) => !isBlank(lines[at]) && !lines[at].includes(mark));
  return end < lines.length && !isBlank(lines[end]) ? end + 1 : end;
}

const kindOfItem = (mark) => (mark.length === 1 ? mark : mark.at(-1));

function endOfList(lines, i) {
  const kind = kindOfItem(item.exec(lines[i])[2]);
  let blank = false;
  return skip(lines, i + 1, (at) => {
    const line = lines[at];
    if (isBlank(line)) {
      // A blank line belongs to the list if what follows it does.
      blank = true;
      const next = lines.slice(at + 1, at + 3).find((l) => !isBlank(l));
      const list = next && item.exec(next);
      return next != null && (next.startsWith('  ') || list != null && kindOfItem(list[2]) === kind);
    }
    const list = item.exec(line);
    const belongs = line.startsWith('  ') || (list ? kindOfItem(list[2]) === kind : !blank && !startsBlock(lines, at));
    blank = false;
    return belongs && !(list && isRule(line));
  });
}

// tree returns the tree of a block.
export function tree({ kind, lines }, depth = 0) {
  switch (kind) {
    case 'code': return code(lines);
    case 'math': return ['div', { class: 'display' }, math(lines.join('\n').trim().replace(/^(\$\$|\\\[)/, '').replace(/(\$\$|\\\])$/, ''), true)];
    case 'heading': return heading(lines[0].trim());
    case 'rule': return ['hr', {}];
    case 'quote': return ['blockquote', {}, ...inner(lines.map((l) => l.replace(/^ {0,3}> ?/, '')), depth)];
    case 'list': return list(lines, depth);
    case 'table': return table(lines);
    default: return ['p', {}, ...inline(lines.map((l) => l.trim()).join('\n'))];
  }
}

function inner(lines, depth) {
  if (depth >= maxDepth) return [lines.join('\n')];
  return blocks(lines.join('\n')).map((b) => tree(b, depth + 1));
}

function code(lines) {
  const [, fence, info] = fenceStart.exec(lines[0]);
  const closed = lines.length > 1 && isEndOfCode(lines.at(-1), fence);
  const language = info.trim().split(/\s/)[0].slice(0, 40);
  return ['pre', { tabindex: '0', 'aria-label': language ? `Code, ${language}` : 'Code' }, ['code', {}, lines.slice(1, closed ? -1 : undefined).join('\n')]];
}

// heading returns a heading below those of the page.
function heading(line) {
  const level = /^#+/.exec(line)[0].length;
  let text = line.slice(level).trim();
  const closing = /(?:^|[ \t])#+$/.exec(text.slice(-50));
  if (closing) text = text.slice(0, text.length - closing[0].length);
  return [`h${Math.min(level + 2, 6)}`, {}, ...inline(text)];
}

function list(lines, depth) {
  const first = item.exec(lines[0]);
  const items = [];
  let width = 0;
  for (const line of lines) {
    const mark = item.exec(line);
    if (mark && mark[1].length < Math.max(width, 2) && !(items.length > 0 && mark[1].length >= 2 && mark[1].length >= width)) {
      width = Math.min(mark[0].length, mark[1].length + mark[2].length + 1);
      items.push([line.slice(mark[0].length)]);
    } else {
      const indent = /^ */.exec(line)[0].length;
      items.at(-1).push(line.slice(Math.min(indent, width)));
    }
  }
  const loose = lines.some(isBlank);
  const children = items.map((content) => {
    const parts = inner(content, depth);
    return ['li', {}, ...(loose ? parts : parts.flatMap((p) => (p[0] === 'p' ? p.slice(2) : [p])))];
  });
  const start = parseInt(first[2], 10);
  return Number.isNaN(start) ? ['ul', {}, ...children] : ['ol', start === 1 ? {} : { start }, ...children];
}

// cells divides a row where | is neither escaped nor in code.
function cells(line) {
  const row = line.trim();
  const all = [''];
  let inCode = false;
  for (let i = row.startsWith('|') ? 1 : 0; i < row.length; i++) {
    const c = row[i];
    if (c === '`') inCode = !inCode;
    if (c === '\\' && row[i + 1] === '|') { all[all.length - 1] += '|'; i++; }
    else if (c === '|' && !inCode) { if (i < row.length - 1) all.push(''); }
    else all[all.length - 1] += c;
  }
  return all.map((c) => c.trim());
}

function table(lines) {
  const head = cells(lines[0]);
  const row = (tag, line) => {
    const got = cells(line);
    return ['tr', {}, ...head.map((_, i) => [tag, {}, ...inline(got[i] ?? '')])];
  };
  return ['div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table' },
    ['table', {}, ['thead', {}, row('th', lines[0])], ['tbody', {}, ...lines.slice(2).map((l) => row('td', l))]]];
}

const special = /[\\`*_~[\]$<h\n]/g;
const address = /(?:https?:\/\/|mailto:)[^\s<>"'`\\^{}|\u0000-\u001f]{1,2000}/y;
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);
const isSpace = (c) => c === undefined || /\s/.test(c);

// inline returns the trees of a text within a block.
export function inline(text) {
  return new Inline(text).run();
}

// Inline reads a text from left to right. Openers whose closer has not come yet are on a stack of frames.
class Inline {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.frames = [{ mark: '', nodes: [] }];
    this.open = new Map(); // how many frames have a mark
    this.missing = new Set(); // marks that do not come again
  }

  run() {
    const { text } = this;
    while (this.at < text.length) {
      special.lastIndex = this.at;
      const next = special.exec(text);
      const stop = next ? next.index : text.length;
      if (stop > this.at) this.add(text.slice(this.at, stop));
      this.at = stop;
      if (next && !this.mark(next[0])) {
        this.add(next[0]);
        this.at++;
      }
    }
    while (this.frames.length > 1) this.drop();
    return this.frames[0].nodes;
  }

  add(node) {
    const { nodes } = this.frames.at(-1);
    if (typeof node === 'string' && typeof nodes.at(-1) === 'string') nodes[nodes.length - 1] += node;
    else nodes.push(node);
  }

  // mark reads what begins with a special character, and reports whether it has a meaning.
  mark(c) {
    const { text, at } = this;
    switch (c) {
      case '\n': return this.take(1, ['br', {}]);
      case '\\': return this.escape();
      case '`': return this.code();
      case '$': return this.dollar();
      case '<': return this.angle();
      case 'h': return !isWord(text[at - 1]) && this.link(at);
      case '[': return this.begin('[', 1);
      case ']': return this.endOfLink();
      case '~': return text[at + 1] === '~' && this.emphasis('~~', 'del');
      default: return this.emphasis(text[at + 1] === c ? c + c : c, text[at + 1] === c ? 'strong' : 'em');
    }
  }

  take(length, node) {
    this.add(node);
    this.at += length;
    return true;
  }

  // until returns where a mark is behind a place, and -1 if it does not come.
  until(mark, from) {
    if (this.missing.has(mark)) return -1;
    const end = this.text.indexOf(mark, from);
    if (end < 0) this.missing.add(mark);
    return end;
  }

  escape() {
    const { text, at } = this;
    const next = text[at + 1];
    if (next === '(' || next === '[') {
      const end = this.until(next === '(' ? '\\)' : '\\]', at + 2);
      return end > 0 && this.take(end + 2 - at, math(text.slice(at + 2, end), false));
    }
    return next !== undefined && /[!-/:-@[-`{-~]/.test(next) && this.take(2, next);
  }

  code() {
    const { text, at } = this;
    let length = 1;
    while (text[at + length] === '`') length++;
    const fence = '`'.repeat(length);
    if (!this.missing.has(fence)) {
      for (let end = text.indexOf(fence, at + length); end > 0; end = text.indexOf(fence, end)) {
        let run = length;
        while (text[end + run] === '`') run++;
        if (run === length) {
          const inside = text.slice(at + length, end);
          return this.take(end + length - at, ['code', {}, inside.length > 2 ? inside.replace(/^ (.*) $/s, '$1') : inside]);
        }
        end += run;
      }
      this.missing.add(fence);
    }
    return this.take(length, fence);
  }

  // dollar reads math. A price is none: math has no space inside of its marks, and no digit behind them.
  dollar() {
    const { text, at } = this;
    const mark = text[at + 1] === '$' ? '$$' : '$';
    const from = at + mark.length;
    const end = isSpace(text[from]) && mark === '$' ? -1 : this.until(mark, from);
    if (end <= from || mark === '$' && (isSpace(text[end - 1]) || /\d/.test(text[end + 1] ?? ''))) return false;
    return this.take(end + mark.length - at, math(text.slice(from, end), false));
  }

  angle() {
    const end = this.text.indexOf('>', this.at);
    return end > 0 && end - this.at < 2000 && this.link(this.at + 1, end);
  }

  // link reads an address. The characters behind it that end a sentence do not belong to it.
  link(from, end) {
    address.lastIndex = from;
    const found = address.exec(this.text);
    if (!found || end !== undefined && address.lastIndex !== end) return false;
    const url = end === undefined ? found[0].replace(/[.,:;!?)\]*_~]{1,20}$/, '') : found[0];
    if (!isAddress(url)) return false;
    return this.take(end === undefined ? url.length : url.length + 2, anchor(url, [url]));
  }

  begin(mark, length) {
    if (this.frames.length > maxDepth) return false;
    this.frames.push({ mark, nodes: [] });
    this.open.set(mark, (this.open.get(mark) ?? 0) + 1);
    this.at += length;
    return true;
  }

  // pop removes the last frame and returns its nodes.
  pop() {
    const { mark, nodes } = this.frames.pop();
    this.open.set(mark, this.open.get(mark) - 1);
    return [mark, nodes];
  }

  // drop makes the mark of the last frame text.
  drop() {
    const [mark, nodes] = this.pop();
    this.add(mark);
    nodes.forEach((n) => this.add(n));
  }

  emphasis(mark, tag) {
    const { text, at } = this;
    const before = text[at - 1];
    const after = text[at + mark.length];
    if (!isSpace(before) && this.open.get(mark) > 0 && !(mark[0] === '_' && isWord(after))) {
      while (this.frames.at(-1).mark !== mark) this.drop();
      const [, nodes] = this.pop();
      return this.take(mark.length, [tag, {}, ...nodes]);
    }
    return !isSpace(after) && !(mark[0] === '_' && isWord(before)) && this.begin(mark, mark.length);
  }

  // endOfLink reads ](address). Its address is shown beside the text, so that the text cannot claim another one.
  endOfLink() {
    const { text, at } = this;
    if (text[at + 1] !== '(' || !this.open.get('[')) return false;
    address.lastIndex = at + 2;
    const url = address.exec(text)?.[0].split(')')[0];
    if (!url || text[at + 2 + url.length] !== ')' || !isAddress(url)) return false;
    while (this.frames.at(-1).mark !== '[') this.drop();
    const [, nodes] = this.pop();
    const image = this.frames.at(-1).nodes.at(-1);
    if (typeof image === 'string' && image.endsWith('!')) { // nothing is loaded
      ['[', ...nodes, `](${url})`].forEach((n) => this.add(n));
      this.at += url.length + 3;
      return true;
    }
    const plain = nodes.length === 1 && nodes[0] === url;
    return this.take(url.length + 3, anchor(url, plain ? [url] : [...nodes, ` (${url.length > 80 ? url.slice(0, 80) + '…' : url})`]));
  }
}

function isAddress(url) {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}

// anchor returns a link that tells the other site nothing about this page. Links within links stay text.
function anchor(url, nodes) {
  const flat = nodes.map((n) => (Array.isArray(n) && n[0] === 'a' ? ['span', {}, ...n.slice(2)] : n));
  return ['a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...flat];
}
