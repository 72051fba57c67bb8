// A part of TeX's math as MathML: fractions, roots, scripts, Greek letters, operators, fences, accents, matrices and
// cases. A command that is not here is shown by its name, and a formula that cannot be read as it was written.

const maxLength = 4000;
const maxDepth = 40;

const symbols = Object.fromEntries(`
alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π
rho ρ sigma σ tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ
Omega Ω infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ emptyset ∅ aleph ℵ dots … ldots … cdots ⋯ vdots ⋮ ddots ⋱ prime ′ degree °
`.trim().split(/\s+/).reduce((pairs, word, i) => (i % 2 ? pairs.at(-1).push(word) : pairs.push([word]), pairs), []));

const operators = Object.fromEntries(`
times × cdot · div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ otimes ⊗ leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ approx ≈ equiv ≡ sim ∼
simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ cup ∪ cap ∩ setminus ∖ forall ∀ exists ∃
neg ¬ lnot ¬ land ∧ wedge ∧ lor ∨ vee ∨ to → rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔
implies ⟹ iff ⟺ mapsto ↦ uparrow ↑ downarrow ↓ mid ∣ parallel ∥ perp ⊥ angle ∠ therefore ∴ because ∵ langle ⟨ rangle ⟩ lfloor ⌊
rfloor ⌋ lceil ⌈ rceil ⌉ vert | Vert ‖ lbrace { rbrace } colon : sum ∑ prod ∏ int ∫ iint ∬ oint ∮ bigcup ⋃ bigcap ⋂ backslash \\
`.trim().split(/\s+/).reduce((pairs, word, i) => (i % 2 ? pairs.at(-1).push(word) : pairs.push([word]), pairs), []));

const functions = new Set('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup inf det dim ker gcd deg arg Pr'.split(' '));
const limits = new Set(['∑', '∏', '⋃', '⋂', 'lim', 'max', 'min', 'sup', 'inf']);
const accents = { hat: '^', widehat: '^', bar: '¯', overline: '¯', vec: '→', dot: '˙', ddot: '¨', tilde: '~', widetilde: '~' };
const spaces = { ',': '\u2009', ':': '\u2005', ';': '\u2004', ' ': ' ', '!': '', quad: '\u2003', qquad: '\u2003\u2003' };
const fonts = new Set(['mathrm', 'mathbf', 'mathit', 'mathsf', 'mathtt', 'mathcal', 'mathfrak', 'boldsymbol', 'bm', 'operatorname', 'displaystyle']);
const double = { R: 'ℝ', N: 'ℕ', Z: 'ℤ', Q: 'ℚ', C: 'ℂ', P: 'ℙ', H: 'ℍ' };
const fences = { matrix: ['', ''], pmatrix: ['(', ')'], bmatrix: ['[', ']'], vmatrix: ['|', '|'], cases: ['{', ''], aligned: ['', ''], align: ['', ''], 'align*': ['', ''], array: ['', ''] };

// math returns the tree of a formula.
export function math(source, display) {
  try {
    if (source.length > maxLength) throw new SyntaxError('too long');
    const reader = new Reader(source, display);
    const row = reader.row(() => false);
    return ['math', display ? { display: 'block' } : {}, ...row];
  } catch (problem) {
    if (!(problem instanceof SyntaxError)) throw problem;
    return ['code', {}, source];
  }
}

const row = (nodes) => (nodes.length === 1 ? nodes[0] : ['mrow', {}, ...nodes]);

class Reader {
  constructor(source, display) {
    this.tokens = source.match(/\\(?:[a-zA-Z]+|[^])|\d+(?:\.\d+)?|\S/gu) ?? [];
    this.source = source;
    this.display = display;
    this.at = 0;
    this.depth = 0;
  }

  get next() { return this.tokens[this.at]; }

  expect(token) {
    if (this.next !== token) throw new SyntaxError(`${token} is missing`);
    this.at++;
  }

  // row reads atoms with their scripts up to a token for which ends is true.
  row(ends) {
    if (++this.depth > maxDepth) throw new SyntaxError('too deep');
    const nodes = [];
    while (this.at < this.tokens.length && !ends(this.next)) {
      const atom = this.next === '^' || this.next === '_' ? ['mrow', {}] : this.atom();
      if (atom) nodes.push(this.scripts(atom));
    }
    this.depth--;
    return nodes;
  }

  // group reads an argument: a row in braces, or one atom.
  group() {
    if (this.next !== '{') {
      if (this.next === undefined || this.next === '}') throw new SyntaxError('an argument is missing');
      if (++this.depth > maxDepth) throw new SyntaxError('too deep');
      const atom = this.atom() ?? ['mrow', {}];
      this.depth--;
      return atom;
    }
    this.at++;
    const nodes = this.row((t) => t === '}');
    this.expect('}');
    return row(nodes);
  }

  scripts(base) {
    let below, above;
    let primes = '';
    for (;;) {
      if (this.next === "'") { this.at++; primes += '′'; }
      else if (this.next === '^' && !above) { this.at++; above = this.group(); }
      else if (this.next === '_' && !below) { this.at++; below = this.group(); }
      else break;
    }
    if (primes) above = above ? ['mrow', {}, ['mo', {}, primes], above] : ['mo', {}, primes];
    if (!below && !above) return base;
    const under = this.display && limits.has(base[2]);
    if (below && above) return [under ? 'munderover' : 'msubsup', {}, base, below, above];
    return below ? [under ? 'munder' : 'msub', {}, base, below] : [under ? 'mover' : 'msup', {}, base, above];
  }

  atom() {
    const token = this.tokens[this.at++];
    if (token[0] === '\\' && token.length > 1) return this.command(token.slice(1));
    if (token === '{') { this.at--; return this.group(); }
    if (token === '}') throw new SyntaxError('} without {');
    if (/^\d/.test(token)) return ['mn', {}, token];
    if (/^\p{L}$/u.test(token)) return ['mi', {}, token];
    if (token === '~') return ['mtext', {}, '\u00a0'];
    return ['mo', {}, token === '-' ? '−' : token];
  }

  command(name) {
    if (Object.hasOwn(symbols, name)) return ['mi', {}, symbols[name]];
    if (Object.hasOwn(operators, name)) return ['mo', {}, operators[name]];
    if (functions.has(name)) return ['mi', {}, name];
    if (Object.hasOwn(spaces, name)) return ['mtext', {}, spaces[name]];
    if (Object.hasOwn(accents, name)) return ['mover', { accent: 'true' }, this.group(), ['mo', {}, accents[name]]];
    if (fonts.has(name)) return name === 'displaystyle' ? null : this.font(name);
    switch (name) {
      case 'frac': case 'dfrac': case 'tfrac': return ['mfrac', {}, this.group(), this.group()];
      case 'binom': return ['mrow', {}, ['mo', {}, '('], ['mfrac', { linethickness: '0' }, this.group(), this.group()], ['mo', {}, ')']];
      case 'sqrt': return this.root();
      case 'text': case 'textbf': case 'textit': case 'mbox': return ['mtext', {}, this.words()];
      case 'mathbb': return this.double();
      case 'left': return this.fenced();
      case 'right': case 'end': throw new SyntaxError(`\\${name} without its beginning`);
      case 'begin': return this.environment();
      case 'limits': case 'nolimits': case 'big': case 'Big': case 'bigg': case 'Bigg': return null;
      case '{': case '}': case '|': case '%': case '$': case '#': case '&': case '_': return ['mo', {}, name === '|' ? '‖' : name];
      case '\\': return ['mspace', { linebreak: 'newline' }];
      default: return ['mtext', {}, '\\' + name];
    }
  }

  font(name) {
    const group = this.group();
    if (name !== 'operatorname' && name !== 'mathrm') return group;
    const letters = group.slice(2).map((n) => (Array.isArray(n) ? n[2] : n));
    return letters.every((l) => typeof l === 'string') ? ['mi', {}, letters.join('')] : group;
  }

  double() {
    const group = this.group();
    return group[0] === 'mi' && double[group[2]] ? ['mi', {}, double[group[2]]] : group;
  }

  root() {
    if (this.next !== '[') return ['msqrt', {}, this.group()];
    this.at++;
    const index = row(this.row((t) => t === ']'));
    this.expect(']');
    return ['mroot', {}, this.group(), index];
  }

  // words reads the text of \text{…}, whose spaces count, from the source.
  words() {
    this.expect('{');
    const seen = this.tokens.slice(0, this.at);
    let from = 0;
    for (const t of seen) from = this.source.indexOf(t, from) + t.length;
    const end = this.source.indexOf('}', from);
    if (end < 0) throw new SyntaxError('} is missing');
    while (this.next !== '}') {
      if (this.next === undefined) throw new SyntaxError('} is missing');
      this.at++;
    }
    this.at++;
    return this.source.slice(from, end);
  }

  fence() {
    const token = this.tokens[this.at++] ?? '';
    if (token === '.') return '';
    const name = token.slice(1);
    return token[0] === '\\' ? operators[name] ?? (name === '|' ? '‖' : name) : token;
  }

  fenced() {
    const open = this.fence();
    const nodes = this.row((t) => t === '\\right');
    this.expect('\\right');
    const close = this.fence();
    return ['mrow', {}, ['mo', { fence: 'true' }, open], ...nodes, ['mo', { fence: 'true' }, close]];
  }

  name() {
    this.expect('{');
    let name = '';
    while (this.next !== undefined && this.next !== '}') name += this.tokens[this.at++];
    this.expect('}');
    return name;
  }

  environment() {
    const name = this.name();
    if (!Object.hasOwn(fences, name)) throw new SyntaxError(`unknown environment ${name}`);
    if (name === 'array') this.name();
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(['mtd', {}, ...this.row((t) => t === '&' || t === '\\\\' || t === '\\end')]);
      const token = this.tokens[this.at++];
      if (token === '\\\\') rows.push([]);
      else if (token === '\\end') break;
      else if (token !== '&') throw new SyntaxError('\\end is missing');
    }
    if (this.name() !== name) throw new SyntaxError('\\end of another environment');
    const [open, close] = fences[name];
    const table = ['mtable', {}, ...rows.filter((r) => r.length > 1 || r[0].length > 2).map((r) => ['mtr', {}, ...r])];
    return ['mrow', {}, ...(open ? [['mo', { fence: 'true' }, open]] : []), table, ...(close ? [['mo', { fence: 'true' }, close]] : [])];
  }
}
