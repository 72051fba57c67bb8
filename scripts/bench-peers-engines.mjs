// The engines that bench-peers.mjs compares. Each engine takes a job
// {model, pack, threads, depths, prefill, decode} and resolves to a result
// {tests, firstToken, peak}. A test is {name, threads, depth, speed};
// speed is in tokens per second, firstToken in seconds and peak in bytes. NaN
// means unknown.
import {execFileSync, spawn} from "node:child_process";
import {readFileSync} from "node:fs";
import {fileURLToPath} from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));

// run starts a program and returns its output, the seconds until the output
// contains a given text, and the peak of its memory in bytes.
function run(program, args, awaited = "") {
    return new Promise((resolve, reject) => {
        const started = performance.now();
        const child = spawn(program, args.map(String), {stdio: ["ignore", "pipe", "pipe"]});
        let output = "", errors = "", took = NaN, peak = NaN;
        // The peak never decreases, so the last sample is the peak of the process.
        const watch = setInterval(() => { peak = peakMemory(child.pid) || peak; }, 20);
        child.stdout.on("data", (data) => {
            output += data;
            if (Number.isNaN(took) && output.includes(awaited)) took = (performance.now() - started) / 1000;
        });
        child.stderr.on("data", (data) => { errors += data; });
        child.on("error", (error) => { clearInterval(watch); reject(error); });
        child.on("close", (code, signal) => {
            clearInterval(watch);
            if (code === 0) resolve({output, took, peak});
            else reject(new Error(`${path.basename(program)} ${args.join(" ")}: ${signal ?? `exit code ${code}`}\n${errors.slice(-2000)}`));
        });
    });
}

function peakMemory(pid) {
    try {
        return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
    } catch {
        return NaN; // the process has ended, or the system is not Linux
    }
}

const fromReport = ({name, threads, depth, tok_per_s: {median}}) => ({name, threads, depth, speed: median});

// llmrun uses a pack, as in every run after the first one. The time to its first
// token includes the start of the process.
export const llmrun = (program) => ({
    name: "llmrun",
    async measure(job) {
        const {output} = await run(program, ["bench", "-m", job.pack, "--json", "-r", 1, "--pp", job.prefill, "--tg", job.decode,
            "--depth", job.depths, "--threads", job.threads]);
        const report = JSON.parse(output);
        const {took} = await run(program, ["run", "-q", "-m", job.pack, "--threads", Math.max(...job.threads),
            "--ids", "0,239,222,205,188", "-n", 1, "--temp", 0]);
        return {
            tests: report.tests.map((test) => ({...fromReport(test), ofLimit: test.of_limit})),
            firstToken: took, peak: report.peak_rss_bytes || NaN, limits: report.limits,
        };
    },
});

// mainline is llama.cpp as node-llama-cpp ships it. Its time and its memory do not
// include Node.js: they are measured from the start of loading the model.
export const mainline = (home, kv) => ({
    name: "llama.cpp",
    async measure({model, threads, depths, prefill, decode}) {
        const job = {model, threads, depths, prefill, decode, kv};
        const {output, peak} = await run(process.execPath, [path.join(here, "peer-bench.mjs"), home, JSON.stringify(job)]);
        const report = JSON.parse(output);
        return {tests: report.tests.map(fromReport), firstToken: report.first_token_seconds, peak: peak - report.rss_bytes_before};
    },
});

// builds are the ways to measure another build of llama.cpp, or of a fork, with
// its llama-bench: without options, and with run-time repacking if it supports that.
export function builds(program, name, kv) {
    const help = helpOf(program);
    const list = [llamaBench(program, name, kv, help, [])];
    if (/-rtr\b/.test(help)) list.push(llamaBench(program, `${name} -rtr`, kv, help, ["-rtr", 1]));
    return list;
}

const llamaBench = (program, name, kv, help, extra) => ({
    name,
    async measure(job) {
        const all = ["-m", job.model, "-r", 1, "-o", "json", "-fa", 1, "-ctk", kv, "-ctv", kv, ...extra];
        const lengths = ["-p", job.prefill, "-n", job.decode, "-t", job.threads, ...depthFlags(job, help)];
        const {output, peak} = await run(program, [...all, ...lengths]);
        // The first token waits for the prefill of five tokens; llama-bench prints
        // the result as soon as the prefill ends.
        const {took} = await run(program, [...all, "-p", 5, "-n", 0, "-w", 0, "-t", Math.max(...job.threads)], '"samples_ts"');
        return {tests: testsOf(output), firstToken: took, peak};
    },
});

// depthFlags returns the flags for tests after a context. Builds without --n-depth
// support only tests of decoding there.
function depthFlags({depths, decode}, help) {
    if (/--n-depth\b/.test(help)) return ["-d", depths];
    return depths.filter((n) => n > 0 && decode > 0).flatMap((n) => ["-gp", `${n},${decode}`]);
}

// testsOf parses the output of llama-bench. Some builds print other text before
// the list.
function testsOf(output) {
    return JSON.parse(output.slice(output.search(/^\[$/m))).map((t) => ({
        name: t.n_gen > 0 ? `tg${t.n_gen}` : `pp${t.n_prompt}`,
        threads: t.n_threads,
        depth: t.n_depth ?? (t.n_gen > 0 ? t.n_prompt : 0),
        speed: t.avg_ts,
    }));
}

function helpOf(program) {
    try {
        return execFileSync(program, ["--help"], {encoding: "utf8", stdio: ["ignore", "pipe", "pipe"]});
    } catch (error) {
        return `${error.stdout}${error.stderr}`; // some builds exit with an error after printing their help
    }
}
