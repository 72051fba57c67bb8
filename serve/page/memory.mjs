// Shows what memory and flash are used for, from the counters that the server has for Prometheus.
import { call } from './api.mjs';
import { find, h } from './dom.mjs';

// parse returns the counters by name, then by the value of their label.
export function parse(text) {
  const found = {};
  for (const line of text.split('\n')) {
    const [, name, label, value] = /^llmrun_(\w+)(?:\{\w+="([^"]*)"\})? (\S+)$/.exec(line) ?? [];
    if (name) (found[name] ??= {})[label ?? ''] = Number(value);
  }
  return found;
}

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// Memory asks for the counters while its panel is open: once a second while busy() is true, otherwise every five seconds.
export class Memory {
  constructor(busy) {
    this.busy = busy;
    this.last = null; // the counters before, and when they came
    this.tokens = this.passes = 0; // of all passes that the server counted last
    this.perPass = null;
    find('memory').addEventListener('toggle', () => this.poll());
    document.addEventListener('visibilitychange', () => this.poll());
  }

  async poll() {
    clearTimeout(this.timer);
    if (!find('memory').open || document.hidden) return;
    try {
      this.show(parse(await (await call('metrics')).text()));
    } catch (problem) {
      find('memory-facts').textContent = problem.message;
    }
    clearTimeout(this.timer); // of another call
    this.timer = setTimeout(() => this.poll(), this.busy() ? 1000 : 5000);
  }

  show(counters) {
    const now = performance.now();
    const held = Object.entries(counters.ram_bytes ?? {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
    const total = held.reduce((sum, [, n]) => sum + n, 0);
    const color = (i) => `part${i % 6}`;
    find('memory-bar').replaceChildren(...held.map(([, n], i) => {
      const part = h('span', { class: color(i) });
      part.style.flexGrow = n; // a property, which the policy permits, and not an attribute
      return part;
    }));
    const read = counters.flash_read_bytes_total ?? {};
    const before = this.last?.read ?? read;
    const seconds = this.last ? (now - this.last.now) / 1000 : 1;
    const flash = (what) => `${bytes(read[what] ?? 0)}, ${bytes(((read[what] ?? 0) - (before[what] ?? 0)) / seconds)} per second`;
    this.last = { now, read };
    const rows = [
      ['Memory', bytes(total)], ...held.map(([purpose, n], i) => [purpose, bytes(n), color(i)]),
      ['Weights read', flash('weights')], ['Context read', flash('kv')], ['Tokens per pass', this.tokensPerPass(counters)],
    ];
    find('memory-facts').replaceChildren(...rows.flatMap(([name, value, part]) => [
      h('dt', null, part && h('span', { class: `mark ${part}` }), name), h('dd', null, value)]));
  }

  // tokensPerPass tells how many tokens the passes since the counters before have computed, or the last ones that there were.
  tokensPerPass(counters) {
    const tokens = counters.pass_tokens_total?.[''] ?? 0;
    const passes = counters.passes_total?.[''] ?? 0;
    if (passes > this.passes) this.perPass = (tokens - this.tokens) / (passes - this.passes);
    [this.tokens, this.passes] = [tokens, passes];
    return this.perPass?.toFixed(2) ?? '–';
  }
}
