// Times llmrun and its peers on the same models, in turns, and prints their
// speeds and ratios as Markdown.
//
// A round runs every engine once, each in its own process, and every round begins
// with another engine, so that other load on the machine affects all engines. The
// results are medians over the rounds.
//
// usage: node bench-peers.mjs JSON_OPTIONS
// The options: {llmrun, home, peer, peerName, kv, models, threads, depths,
// rounds, prefill, decode, busy, json, command}; see bench-peers.sh.
import {execFileSync, spawn} from "node:child_process";
import {existsSync, rmSync, writeFileSync} from "node:fs";
import os from "node:os";
import path from "node:path";
import {builds, llmrun, mainline} from "./bench-peers-engines.mjs";
import {table} from "./bench-peers-table.mjs";

const options = JSON.parse(process.argv[2]);

// Busy processes end when this process ends, even if it is killed.
const busyLoop = "const parent = process.ppid; while (process.ppid === parent) for (let i = 0; i < 1e8; i++);";

// beside runs work while n other processes compute.
async function beside(n, work) {
    const busy = Array.from({length: n}, () => spawn(process.execPath, ["-e", busyLoop], {stdio: "ignore"}));
    try {
        return await work();
    } finally {
        for (const child of busy) child.kill();
    }
}

// measure returns a sample of an engine, including the tests beside busy processes.
// A failed engine returns an empty sample.
async function measure(engine, job) {
    try {
        const sample = await engine.measure(job);
        for (const test of sample.tests) test.busy = 0;
        if (options.busy > 0) {
            const {tests} = await beside(options.busy, () => engine.measure(job));
            // The limits of an idle machine do not apply beside busy processes.
            sample.tests.push(...tests.map((test) => ({...test, ofLimit: NaN, busy: options.busy})));
        }
        return sample;
    } catch (error) {
        process.stderr.write(`\n${engine.name} failed: ${error.message}\n`);
        process.exitCode = 1;
        return {tests: [], firstToken: NaN, peak: NaN};
    }
}

async function measureModel(model, engines) {
    const name = path.basename(model);
    const pack = path.join(options.home, `${name}.pack`);
    execFileSync(options.llmrun, ["import", model, "-o", pack, "--force"], {stdio: ["ignore", "ignore", "inherit"]});
    const {threads, depths, prefill, decode} = options;
    const job = {model, pack, threads, depths, prefill, decode};
    const result = {model: name, engines: engines.map((e) => ({name: e.name, samples: []}))};
    for (let round = 0; round < options.rounds; round++) {
        for (let i = 0; i < engines.length; i++) {
            const at = (round + i) % engines.length;
            process.stderr.write(`${name}: round ${round + 1} of ${options.rounds}, ${engines[at].name}:`);
            const sample = await measure(engines[at], job);
            process.stderr.write(`${sample.tests.map((t) => ` ${t.speed.toFixed(1)}`).join("")} tok/s\n`);
            result.engines[at].samples.push(sample);
        }
    }
    rmSync(pack);
    return result;
}

for (const model of options.models) {
    if (!existsSync(model)) throw new Error(`${model} does not exist`);
}
const engines = [llmrun(options.llmrun), mainline(options.home, options.kv)];
if (options.peer) engines.push(...builds(options.peer, options.peerName, options.kv));

const load = os.loadavg()[0];
if (load > 0.5) process.stderr.write(`warning: other programs keep the machine busy (load ${load.toFixed(1)})\n`);
const [cpu] = os.cpus();
const report = {
    date: new Date().toISOString(), command: options.command, load_before: load, rounds: options.rounds, kv_of_peers: options.kv,
    machine: {cpu: cpu.model.trim(), processors: os.cpus().length, memory_bytes: os.totalmem(), system: `${os.type()} ${os.release()}`},
    results: [],
};
console.log(`### ${report.date.slice(0, 16).replace("T", " ")} UTC: ${report.machine.cpu}, ${report.machine.processors} processors, ` +
    `${Math.round(report.machine.memory_bytes / 2 ** 30)} GiB, ${report.machine.system}\n`);
console.log(`Medians of ${options.rounds} rounds in turns; load before: ${load.toFixed(2)}; keys and values of peers in ${options.kv}. ` +
    `Command: \`${options.command}\``);
for (const model of options.models) {
    const result = await measureModel(model, engines);
    report.results.push(result);
    console.log(`\n${table(result)}`);
    // Write the file after each model, so a later failure loses no results.
    if (options.json) writeFileSync(options.json, JSON.stringify(report, null, 1) + "\n");
}
if (!options.peer) console.log("\nFork not measured: no PEER was given.");
