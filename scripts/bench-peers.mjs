// Times llmrun and its peers on the same models, in turns, and prints their
// speeds and ratios as Markdown.
//
// A round runs every engine once, each in a process of its own, and every round
// begins with another engine: what else happens on the machine meets all of
// them. Medians over the rounds are compared.
//
// usage: node bench-peers.mjs JSON_OPTIONS
// The options: {llmrun, home, cache, peer, models, threads, rounds, prefill,
// decode, depth, command}; see bench-peers.sh, which makes them.
import {execFileSync, spawn} from "node:child_process";
import {existsSync, readFileSync} from "node:fs";
import {fileURLToPath} from "node:url";
import os from "node:os";
import path from "node:path";

const options = JSON.parse(process.argv[2]);
const here = path.dirname(fileURLToPath(import.meta.url));

// run starts a program and returns what it prints, the seconds until it prints
// anything, and the peak of its memory in bytes (0 where the system hides it).
function run(program, args) {
    return new Promise((resolve, reject) => {
        const started = performance.now();
        const child = spawn(program, args, {stdio: ["ignore", "pipe", "pipe"]});
        let output = "", errors = "", first = 0, peak = 0;
        // The peak only grows until the process ends: the last look counts.
        const watch = setInterval(() => { peak = peakMemory(child.pid) || peak; }, 20);
        child.stdout.on("data", (data) => {
            first ||= (performance.now() - started) / 1000;
            output += data;
        });
        child.stderr.on("data", (data) => { errors += data; });
        child.on("error", (error) => { clearInterval(watch); reject(error); });
        child.on("close", (code) => {
            clearInterval(watch);
            if (code === 0) resolve({output, first, peak});
            else reject(new Error(`${program} ${args.join(" ")}: exit code ${code}\n${errors}`));
        });
    });
}

function peakMemory(pid) {
    try {
        return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
    } catch {
        return 0; // it has ended, or this is no Linux
    }
}

// firstToken is how llmrun answers a prompt of five tokens with one, from the
// start of its process on. (llama.cpp's time begins when it loads the model.)
const firstToken = (model) => run(options.llmrun, ["run", "-q", "-m", model, "--threads", String(options.threads),
    "--cache-dir", options.cache, "--ids", "0,239,222,205,188", "-n", "1", "--temp", "0"]);

// An engine prepares a model, once, and measures one job: {prefill, decode} in
// tokens a second, firstToken in seconds, peak in bytes; NaN for what it cannot
// tell.
const llmrun = {
    name: "llmrun",
    // The first use imports the model, the others find it imported.
    prepare: firstToken,
    async measure(model) {
        const {output} = await run(options.llmrun, ["bench", "-m", model, "--json", "-r", "1",
            "--pp", options.prefill, "--tg", options.decode, "--depth", options.depth, "--threads", options.threads].map(String));
        const report = JSON.parse(output);
        const start = await firstToken(model);
        return {...speeds(report.tests), firstToken: start.first, peak: report.peak_rss_bytes, limits: report.limits, tests: report.tests};
    },
};

const mainline = {
    name: "llama.cpp",
    async measure(model) {
        const job = {
            model, threads: options.threads, prefill: options.prefill, decode: options.decode, depth: options.depth,
            context: options.depth + Math.max(options.prefill, options.decode + 2) + 64,
        };
        const {output, peak} = await run(process.execPath, [path.join(here, "peer-bench.mjs"), options.home, JSON.stringify(job)]);
        const report = JSON.parse(output);
        return {...speeds(report.tests), firstToken: report.first_token_seconds, peak: peak || report.peak_rss_bytes};
    },
};

// llamaBench is any build of llama.cpp, or of a fork, that has this program.
const llamaBench = (name, extra) => ({
    name,
    async measure(model) {
        const args = ["-m", model, "-p", options.prefill, "-n", options.decode, "-t", options.threads, "-r", 1, "-o", "json", ...extra];
        if (options.depth > 0) args.push("-d", options.depth);
        const {output, peak} = await run(options.peer, args.map(String));
        const tests = JSON.parse(output);
        const speed = (key) => tests.find((t) => t[key] > 0 && (key === "n_gen") === (t.n_gen > 0))?.avg_ts ?? NaN;
        return {prefill: speed("n_prompt"), decode: speed("n_gen"), firstToken: NaN, peak};
    },
});

function speeds(tests) {
    const speed = (prefix) => tests.find((t) => t.name.startsWith(prefix))?.tok_per_s.median ?? NaN;
    return {prefill: speed("pp"), decode: speed("tg")};
}

function engines() {
    const list = [llmrun, mainline];
    if (!options.peer) return list;
    list.push(llamaBench("peer", []));
    const {stdout = "", stderr = ""} = helpOf(options.peer);
    if (/-rtr\b/.test(stdout + stderr)) list.push(llamaBench("peer -rtr", ["-rtr", 1]));
    return list;
}

function helpOf(program) {
    try {
        return {stdout: execFileSync(program, ["--help"], {encoding: "utf8", stdio: ["ignore", "pipe", "pipe"]})};
    } catch (error) {
        return error; // some exit with an error after their help
    }
}

const median = (values) => {
    const sorted = values.toSorted((a, b) => a - b);
    const n = sorted.length;
    return (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2;
};

// measureModel returns each engine's medians on one model.
async function measureModel(model, list) {
    const samples = new Map(list.map((engine) => [engine.name, []]));
    for (const engine of list) await engine.prepare?.(model);
    for (let round = 0; round < options.rounds; round++) {
        for (let i = 0; i < list.length; i++) {
            const engine = list[(round + i) % list.length];
            process.stderr.write(`${path.basename(model)}: round ${round + 1} of ${options.rounds}, ${engine.name}: `);
            const sample = await engine.measure(model);
            process.stderr.write(`${shown(sample.prefill, 1)} and ${shown(sample.decode, 1)} tok/s\n`);
            samples.get(engine.name).push(sample);
        }
    }
    return list.map(({name}) => {
        const all = samples.get(name);
        const of = (key) => median(all.map((s) => s[key]));
        return {name, prefill: of("prefill"), decode: of("decode"), firstToken: of("firstToken"), peak: of("peak"), all};
    });
}

const shown = (x, digits) => Number.isFinite(x) && x !== 0 ? x.toFixed(digits) : "–";

// table prints a model's rows and, below, llmrun against the best of the others.
function table(model, rows) {
    const depth = options.depth > 0 ? ` at depth ${options.depth}` : "";
    const lines = [
        `**${path.basename(model)}**, ${options.threads} threads${depth}; ${limitsOf(rows[0])}`, "",
        `| engine | pp${options.prefill} tok/s | tg${options.decode} tok/s | first token s | peak MB |`,
        "|---|---|---|---|---|",
    ];
    for (const r of rows) {
        lines.push(`| ${r.name} | ${shown(r.prefill, 1)} | ${shown(r.decode, 1)} | ${shown(r.firstToken, 2)} | ${shown(r.peak / 1e6, 0)} |`);
    }
    const [own, ...others] = rows;
    const known = (key) => others.map((r) => r[key]).filter((x) => Number.isFinite(x) && x > 0);
    const faster = (key) => own[key] / Math.max(...known(key));
    const smaller = (key) => own[key] / Math.min(...known(key));
    lines.push(`| llmrun ÷ best peer | ${shown(faster("prefill"), 2)} | ${shown(faster("decode"), 2)} | ${shown(smaller("firstToken"), 2)} | ${shown(smaller("peak"), 2)} |`);
    return lines.join("\n");
}

// limitsOf says what the machine could do at best during the rounds, and which
// part of it llmrun reached at the median.
function limitsOf(own) {
    const best = (key) => Math.max(...own.all.map((s) => s.limits[key]));
    const share = (prefix) => {
        const parts = own.all.map((s) => s.tests.find((t) => t.name.startsWith(prefix))?.of_limit ?? NaN);
        return shown(100 * median(parts), 0);
    };
    return `memory read ${best("read_gb_s").toFixed(1)} GB/s (llmrun decodes at ${share("tg")} % of it), ` +
        `int8 ${best("int8_gop_s").toFixed(0)} Gop/s (llmrun prefills at ${share("pp")} % of it)`;
}

for (const model of options.models) {
    if (!existsSync(model)) throw new Error(`${model} does not exist`);
}
const list = engines();
const load = os.loadavg()[0];
if (load > 0.5) process.stderr.write(`warning: other programs keep the machine busy (load ${load.toFixed(1)})\n`);
const tables = [];
for (const model of options.models) tables.push(table(model, await measureModel(model, list)));
const [cpu] = os.cpus();
console.log([
    `### ${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC: ${cpu.model.trim()}, ${os.cpus().length} processors, ${Math.round(os.totalmem() / 2 ** 30)} GiB, ${os.type()} ${os.release()}`,
    `Medians of ${options.rounds} rounds in turns; load before: ${load.toFixed(2)}. Command: \`${options.command}\``,
    ...tables,
    ...options.peer ? [] : ["Fork not measured: no PEER was given."],
].join("\n\n"));
