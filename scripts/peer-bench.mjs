// Times llama.cpp, through node-llama-cpp, on one job and prints one JSON
// object: what `llmrun bench` prints of llmrun, as far as this script knows it.
// It is started by bench-peers.mjs, in a process of its own for each job, so
// that memory and the time to the first token are those of one job.
//
// usage: node peer-bench.mjs DIR_WITH_NODE_MODULES JSON_JOB
// The job: {model, threads, context, prefill, decode, depth}. Lengths of 0 are
// not measured. Tokens to read are any, but always the same.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import path from "node:path";

const [home, text] = process.argv.slice(2);
const job = JSON.parse(text);
const resolve = createRequire(path.join(home, "package.json")).resolve;
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(resolve("node-llama-cpp")));

const seconds = (since) => (performance.now() - since) / 1000;

const llama = await getLlama({
    gpu: false, build: "never", maxThreads: job.threads, logLevel: LlamaLogLevel.error,
});
// Starting Node.js and its trial of the library in another process are not
// llama.cpp's: its time begins here.
const started = performance.now();
const model = await llama.loadModel({modelPath: job.model});
const context = await model.createContext({
    contextSize: job.context, threads: {ideal: job.threads, min: job.threads},
});
const loadSeconds = seconds(started);
const sequence = context.getSequence();

// The vocabularies of synthetic models begin with single bytes, and no model in
// use has fewer than these.
const vocabulary = 256;
const ids = (first, n) => Array.from({length: n}, (_, i) => (first + i) * 7919 % vocabulary);
const greedy = {temperature: 0, yieldEogToken: true};

// generate returns how long it takes to read the prompt and decode n tokens,
// and how much of that passes until the first of them.
async function generate(prompt, n) {
    const since = performance.now();
    let first = 0, count = 0;
    for await (const _ of sequence.evaluate(prompt, greedy)) {
        if (count === 0) first = seconds(since);
        if (++count >= n) break;
    }
    return {first, total: seconds(since)};
}

await generate(ids(0, 5), 1);
const firstTokenSeconds = seconds(started); // of a short prompt, loading included

const result = {load_seconds: loadSeconds, first_token_seconds: firstTokenSeconds, tests: []};
const note = (name, count, took) => result.tests.push({
    name, threads: job.threads, depth: job.depth, tok_per_s: {median: count / took},
});

// rewind leaves exactly as many tokens in the context as the job has for its
// depth.
async function rewind() {
    await sequence.clearHistory();
    if (job.depth > 0) await sequence.evaluateWithoutGeneratingNewTokens(ids(0, job.depth));
}

if (job.prefill > 0) {
    await sequence.clearHistory(); // and warm up
    await sequence.evaluateWithoutGeneratingNewTokens(ids(1, Math.min(job.prefill, 64)));
    await rewind();
    const since = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(ids(job.depth, job.prefill));
    note(`pp${job.prefill}`, job.prefill, seconds(since));
}
if (job.decode > 0) {
    await rewind();
    // The first token waits for the prompt of one token; the rest are decoded.
    const {first, total} = await generate(ids(job.depth, 1), job.decode + 1);
    note(`tg${job.decode}`, job.decode, total - first);
}
result.peak_rss_bytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify(result));
process.exit(0); // what is left to free would only take time
