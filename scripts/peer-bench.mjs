// Times llama.cpp, through node-llama-cpp, on one job and prints one JSON
// object with the fields of `llmrun bench --json` that it can measure.
// bench-peers.mjs starts it in a separate process for each job, so that memory
// and the time to the first token are those of one job.
//
// usage: node peer-bench.mjs DIR_WITH_NODE_MODULES JSON_JOB
// The job: {model, threads, depths, prefill, decode, kv}; threads and depths are
// lists. Lengths of 0 are not measured. The prompt is arbitrary but fixed.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import path from "node:path";

const [home, text] = process.argv.slice(2);
const job = JSON.parse(text);
const resolve = createRequire(path.join(home, "package.json")).resolve;
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(resolve("node-llama-cpp")));

const seconds = (since) => (performance.now() - since) / 1000;

const mostThreads = Math.max(...job.threads);
const llama = await getLlama({gpu: false, build: "never", maxThreads: mostThreads, logLevel: LlamaLogLevel.error});
// The time and the memory of llama.cpp are measured from here: they exclude the
// start of Node.js and its test of the library in another process.
const before = process.memoryUsage.rss();
const started = performance.now();
const model = await llama.loadModel({modelPath: job.model, ignoreMemorySafetyChecks: true});
const loadSeconds = seconds(started);

// The vocabularies of synthetic models begin with single bytes, and real models
// have at least as many tokens.
const vocabulary = 256;
const ids = (first, n) => Array.from({length: n}, (_, i) => (first + i) * 7919 % vocabulary);
const greedy = {temperature: 0, yieldEogToken: true};

// generate returns the time for reading the prompt and decoding n tokens, and the
// time until the first token.
async function generate(sequence, prompt, n) {
    const since = performance.now();
    let first = 0, count = 0;
    for await (const _ of sequence.evaluate(prompt, greedy)) {
        if (count === 0) first = seconds(since);
        if (++count >= n) break;
    }
    return {first, total: seconds(since)};
}

// extendTo extends or truncates the context to the given number of tokens.
async function extendTo(sequence, depth) {
    const length = sequence.nextTokenIndex;
    if (length > depth) await sequence.eraseContextTokenRanges([{start: depth, end: length}]);
    else if (length < depth) await sequence.evaluateWithoutGeneratingNewTokens(ids(length, depth - length));
    if (sequence.nextTokenIndex !== depth) throw new Error(`the context has ${sequence.nextTokenIndex} tokens, not ${depth}`);
}

const result = {rss_bytes_before: before, load_seconds: loadSeconds, tests: []};
// The first context has the most threads; the time to the first token is measured
// with it.
for (const threads of job.threads.toSorted((a, b) => b - a)) {
    const context = await model.createContext({
        contextSize: Math.max(...job.depths) + Math.max(job.prefill, job.decode + 2) + 64,
        threads: {ideal: threads, min: threads}, flashAttention: true, ignoreMemorySafetyChecks: true,
        experimentalKvCacheKeyType: job.kv.toUpperCase(), experimentalKvCacheValueType: job.kv.toUpperCase(),
    });
    const sequence = context.getSequence();
    await generate(sequence, ids(0, 5), 1);
    result.first_token_seconds ??= seconds(started); // short prompt, including loading
    await sequence.clearHistory();
    await sequence.evaluateWithoutGeneratingNewTokens(ids(1, 64)); // warm up
    await sequence.clearHistory();

    for (const depth of job.depths.toSorted((a, b) => a - b)) {
        const note = (name, count, took) => result.tests.push({name, threads, depth, tok_per_s: {median: count / took}});
        await extendTo(sequence, depth);
        if (job.prefill > 0) {
            const since = performance.now();
            await sequence.evaluateWithoutGeneratingNewTokens(ids(depth, job.prefill));
            note(`pp${job.prefill}`, job.prefill, seconds(since));
            await extendTo(sequence, depth);
        }
        if (job.decode > 0) {
            // The first token waits for the prefill of a one-token prompt; decoding produces the rest.
            const {first, total} = await generate(sequence, ids(depth, 1), job.decode + 1);
            note(`tg${job.decode}`, job.decode, total - first);
        }
    }
    await context.dispose();
}
console.log(JSON.stringify(result));
process.exit(0); // exit without freeing memory, which only takes time
