// Elements are made of text nodes and elements alone. Nothing that a model or a file says is ever parsed as HTML.

const mathML = 'http://www.w3.org/1998/Math/MathML';

export const find = (id) => document.getElementById(id);

// h returns an element. Attributes that are functions are listeners; those that are true have no value, and those that
// are false, null or undefined are left out.
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((c) => c != null && c !== false));
  return element;
}

// build returns the node of a tree that markdown.mjs or math.mjs has made: a text, or [tag, attributes, ...children].
export function build(tree, inMath = false) {
  if (typeof tree === 'string') return document.createTextNode(tree);
  const [tag, attributes, ...children] = tree;
  const math = inMath || tag === 'math';
  const element = math ? document.createElementNS(mathML, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((c) => build(c, math)));
  return element;
}

// hidden are control characters, and characters without a picture: marks that reorder text, those that join or part it, and tags,
// which can spell what nobody sees. Joiners (U+200C, U+200D) and variation selectors stay, because scripts and emoji need them.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// visible returns a text in which control characters, such as the escapes of terminals, and others without a picture can be seen.
export function visible(text) {
  return text.replaceAll('\r\n', '\n').replace(hidden, (c) => {
    const code = c.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `[U+${code.toString(16).toUpperCase().padStart(4, '0')}]`;
  });
}
