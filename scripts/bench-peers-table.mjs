// Summarizes the measurements of bench-peers.mjs for one model in Markdown.

export const median = (values) => {
    const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
    const n = sorted.length;
    return n > 0 ? (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2 : NaN;
};

// A result is {model, engines: [{name, samples}]}; llmrun is the first engine. A
// sample holds the measurements of an engine in one round; its tests also contain
// the number of busy processes.
const sameTest = (a, b) => a.name === b.name && a.threads === b.threads && a.depth === b.depth && a.busy === b.busy;

function medianOf(engine, test, key) {
    return median(engine.samples.flatMap((s) => s.tests.filter((t) => sameTest(t, test)).map((t) => t[key])));
}

const shown = (x, digits) => Number.isFinite(x) ? x.toFixed(digits) : "–";

function label({name, threads, depth, busy}) {
    return `${name}, ${threads} ${threads === 1 ? "thread" : "threads"}` +
        (depth > 0 ? `, depth ${depth}` : "") + (busy > 0 ? `, ${busy} busy beside` : "");
}

// table returns one row for each test, and a summary of all tests below.
export function table({model, engines}) {
    const [own] = engines;
    const tests = [];
    for (const test of engines.flatMap((e) => e.samples.flatMap((s) => s.tests))) {
        if (!tests.some((t) => sameTest(t, test))) tests.push(test);
    }
    const lines = [
        `**${model}**; ${limitsOf(own)}`, "",
        `| | ${engines.map((e) => e.name).join(" | ")} | llmrun ÷ best peer | of limit |`,
        `|---|${"---|".repeat(engines.length + 2)}`,
    ];
    const row = (text, values, digits, best, ofLimit = NaN) => {
        const known = values.slice(1).filter(Number.isFinite);
        const ratio = best && known.length > 0 ? values[0] / best(...known) : NaN;
        lines.push(`| ${text} | ${values.map((x) => shown(x, digits)).join(" | ")} | ${shown(ratio, 2)} | ` +
            `${Number.isFinite(ofLimit) ? `${shown(100 * ofLimit, 0)} %` : "–"} |`);
    };
    const speeds = (test) => engines.map((e) => medianOf(e, test, "speed"));
    for (const test of tests) row(`${label(test)}: tok/s`, speeds(test), 1, Math.max, medianOf(own, test, "ofLimit"));
    const each = (key) => engines.map((e) => median(e.samples.map((s) => s[key])));
    row("first token: s", each("firstToken"), 2, Math.min);
    row("peak memory: MB", each("peak").map((x) => x / 1e6), 0, Math.min);
    for (const [test, base, text] of comparisons(tests)) {
        const to = speeds(base);
        row(text, speeds(test).map((x, i) => x / to[i]), 2);
    }
    return lines.join("\n");
}

// comparisons pairs each test that differs in one setting with the plain test.
function comparisons(tests) {
    const pairs = [];
    const least = Math.min(...tests.map((t) => t.threads));
    for (const test of tests) {
        const pair = (change, text) => {
            const base = tests.find((t) => sameTest(t, {...test, ...change}));
            if (base && base !== test) pairs.push([test, base, `${label(test)} ÷ ${text}`]);
        };
        if (test.busy > 0) pair({busy: 0}, "alone");
        else if (test.depth > 0) pair({depth: 0}, "depth 0");
        else if (test.threads > least) pair({threads: least}, `${least} ${least === 1 ? "thread" : "threads"}`);
    }
    return pairs;
}

// limitsOf returns the highest limits that were measured during the rounds.
function limitsOf(own) {
    const best = (key) => shown(Math.max(...own.samples.flatMap((s) => s.limits ? [s.limits[key]] : [])), 1);
    const instruction = own.samples.find((s) => s.limits)?.limits.int8_instruction ?? "unknown";
    return `memory read ${best("read_gb_s")} GB/s, int8 ${best("int8_gop_s")} Gop/s (${instruction})`;
}
