// The parsers of the page, which need no browser.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';

const page = process.env.LLMRUN_PAGE;
const skip = page ? false : 'LLMRUN_PAGE, the folder of the page, is not set';
const { blocks, tree } = skip ? {} : await import(join(page, 'markdown.mjs'));
const conversations = skip ? {} : await import(join(page, 'tree.mjs'));

const show = (t) => (typeof t === 'string' ? t : `<${t[0]}${t[1].href ? ` ${t[1].href}` : ''}>${t.slice(2).map(show).join('')}</${t[0]}>`);
const render = (text) => blocks(text).map((b) => show(tree(b))).join('');

test('Markdown', { skip }, () => {
  for (const [text, want] of [
    ['# Title #', '<h3>Title</h3>'],
    ['Text **bold *both* b** `a*b` ~~x~~\nline two', '<p>Text <strong>bold <em>both</em> b</strong> <code>a*b</code> <del>x</del><br></br>line two</p>'],
    ['a_b_c __x__ ** a ** **open', '<p>a_b_c <strong>x</strong> ** a ** **open</p>'],
    ['- a\n- b\n  - c\n- e\n\nafter', '<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>e</li></ul><p>after</p>'],
    ['1. one\n2. two\n\n   para', '<ol><li><p>one</p></li><li><p>two</p><p>para</p></li></ol>'],
    ['```go\nf()\n```\nafter', '<pre><code>f()</code></pre><p>after</p>'],
    ['~~~\nopen', '<pre><code>open</code></pre>'],
    ['| a | b |\n|---|---|\n| 1 | `x|y` |', '<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>x|y</code></td></tr></tbody></table></div>'],
    ['> q\n> > deep', '<blockquote><p>q</p><blockquote><p>deep</p></blockquote></blockquote>'],
    ['---', '<hr></hr>'],
    ['[a](https://b.c/d) [x](javascript:alert(1)) ![i](https://b.c/i)', '<p><a https://b.c/d>a (https://b.c/d)</a> [x](javascript:alert(1)) ![i](https://b.c/i)</p>'],
    ['https://a.b/c. <https://d.e>', '<p><a https://a.b/c>https://a.b/c</a>. <a https://d.e>https://d.e</a></p>'],
    ['<b>x</b> \\*y\\*', '<p><b>x</b> *y*</p>'],
  ]) assert.equal(render(text), want, text);
});

test('math', { skip }, () => {
  for (const [text, want] of [
    ['$x^2$', '<msup><mi>x</mi><mn>2</mn></msup>'],
    ['\\(\\frac{a}{\\sqrt[3]{b_1}}\\)', '<mfrac><mi>a</mi><mroot><msub><mi>b</mi><mn>1</mn></msub><mn>3</mn></mroot></mfrac>'],
    ['$\\text{if } \\alpha \\leq \\unknown$', '<mtext>if </mtext><mi>α</mi><mo>≤</mo><mtext>\\unknown</mtext>'],
    ['$\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}$', '<mrow><mo>(</mo><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd></mtr></mtable><mo>)</mo></mrow>'],
    ["$f'(x) - \\left[0, 1\\right)$", '<msup><mi>f</mi><mo>′</mo></msup><mo>(</mo><mi>x</mi><mo>)</mo><mo>−</mo><mrow><mo>[</mo><mn>0</mn><mo>,</mo><mn>1</mn><mo>)</mo></mrow>'],
  ]) assert.equal(render(text), `<p><math>${want}</math></p>`, text);
  assert.equal(render('$$\n\\sum_{i=1}^n i\n$$'), '<div><math><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi></math></div>');
  assert.equal(render('$5 and $6'), '<p>$5 and $6</p>');
  for (const bad of ['\\frac{1}', '{', '}', 'x^', '\\left( x', '\\end{cases}', '{'.repeat(500)]) assert.equal(render(`\\(${bad}\\)`), `<p><code>${bad}</code></p>`);
});

test('hostile text takes time in proportion to its length', { skip }, () => {
  const parts = ['*', '[', '`', '$x ', '*a ', '**a** ', '>', '- ', '_a', '<', 'https://', '\\(', 'x', '- a\n', '[a](', 'a\n', '```\n', '$$\n', '<https://a', '*_~~[`$', '| a |\n', '- a\n\n', '{', '|', '\\'];
  const time = (text) => {
    const begin = process.cpuUsage();
    render(text);
    const { user, system } = process.cpuUsage(begin);
    return (user + system) / 1e6;
  };
  for (const part of parts) {
    const text = part.repeat(100_000 / part.length);
    time(text.slice(0, 1000));
    assert.ok(time(text) < 2, `${JSON.stringify(part)} takes seconds`);
  }
});

test('branches of a conversation', { skip }, () => {
  const { add, choose, fromSession, newConversation, path, prompt, sessionName, siblings } = conversations;
  const c = newConversation(0);
  const question = add(c, null, { role: 'user', text: 'A?', files: [{ name: 'f.txt', text: 'has ```' }] });
  const first = add(c, question.id, { role: 'assistant', text: 'B' });
  const second = add(c, question.id, { role: 'assistant', text: 'C' });
  const further = add(c, second.id, { role: 'user', text: 'D?' });
  assert.deepEqual(path(c).map((m) => m.text), ['A?', 'C', 'D?']);
  assert.deepEqual(siblings(c, first), [first.id, second.id]);
  choose(c, second, -1);
  choose(c, first, -1); // there is none
  assert.deepEqual(path(c).map((m) => m.text), ['A?', 'B']);
  c.system = 'S';
  assert.deepEqual(prompt(c, further), [
    { role: 'system', content: 'S' }, { role: 'user', content: 'f.txt:\n````\nhas ```\n````\n\nA?' }, { role: 'assistant', content: 'C' }, { role: 'user', content: 'D?' }]);
  assert.match(sessionName('Tell me, über a "fox"/../'), /^tell-me-ber-a-fox-[0-9a-f]{6}$/);
  const saved = fromSession({ name: 'n', model: 'm', messages: [{ role: 'system', content: 'S' }, { role: 'user', content: 'Q' }, { role: 'assistant', content: 'R' }] });
  assert.deepEqual([saved.system, saved.session, path(saved).map((m) => m.text)], ['S', 'n', ['Q', 'R']]);
});

test('characters without a picture can be seen', { skip }, async () => {
  const { visible } = await import(join(page, 'dom.mjs'));
  const shown = (code) => visible(`a${String.fromCodePoint(code)}b`);
  const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
  for (const code of [0x7f, 0x9b, 0x61c, 0x180e, 0x200b, 0x200e, 0x200f, ...range(0x2028, 0x202e), ...range(0x2060, 0x206f), 0xfeff, ...range(0xfff9, 0xfffb), ...range(0xe0000, 0xe007f)]) {
    assert.equal(shown(code), `a[U+${code.toString(16).toUpperCase().padStart(4, '0')}]b`);
  }
  for (const code of range(0, 0x1f).filter((c) => ![9, 10].includes(c))) assert.equal(shown(code), `a${String.fromCodePoint(0x2400 + code)}b`);
  assert.equal(visible('a\r\nb\tc'), 'a\nb\tc');
  for (const text of ['שלום', 'سلام', 'می‌خواهم', '👩‍👩‍👧 ❤️ 🇨🇭', '𝒳 葛󠄀', 'zürich\u00ad']) assert.equal(visible(text), text);
});
