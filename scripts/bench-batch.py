#!/usr/bin/env python3
"""Compares how fast several sequences are decoded at the same time: by llmrun bench batch, by clients of llmrun serve, and by llama.cpp.

Each round runs all of them in turns, each in a process of its own, and a Markdown table has the medians in tokens per second of all
sequences together:

  bench batch      llmrun bench batch, from a pack as in every run after the first one
  clients          as many clients of llmrun serve, which ask at the same time; with their prompts of a few tokens and HTTP. The server has a
                   thread for each fast core: give it those of --threads with taskset
  llama.cpp        the libraries in --libraries (of the npm package node-llama-cpp@3.22.1: node_modules/@node-llama-cpp/linux-x64/bins/linux-x64),
                   with scripts/bench-batch-peer.c, which it compiles; a library of the directory instead of the directory is used as it is
  NAME             --peer NAME=PATH: llama-batched-bench of another build, with -rtr too if it has that

llama.cpp has keys and values in q8_0. Below the table are the lines that say by how much eight sequences are faster than one and than a
peer's, and how the clients compare with bench batch. Working files are in .scratch/batch.

usage: scripts/bench-batch.py LLMRUN MODEL.gguf [--libraries DIR] [--peer NAME=PATH ...] [--sequences 1 2 4 8] [--tokens 64] [--rounds 3]
                              [--threads 2] [--ram SIZE] [--json FILE]
--ram streams llmrun's weights, and the others are left out. LLMRUN_CPU=avx2 in the environment measures kernels without AVX-512.
"""
import argparse, concurrent.futures, json, os, pathlib, re, statistics, subprocess, sys, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / ".scratch" / "batch"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("llmrun", type=pathlib.Path)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("--libraries", type=pathlib.Path)
    p.add_argument("--peer", action="append", default=[], metavar="NAME=PATH")
    p.add_argument("--sequences", type=int, nargs="+", default=[1, 2, 4, 8])
    p.add_argument("--tokens", type=int, default=64, help="of each sequence")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--ram", help="memory budget of llmrun, such as 450MiB")
    p.add_argument("--json", type=pathlib.Path, help="write all samples to this file")
    a = p.parse_args()
    if unknown := sorted(set(a.sequences) - {1, 2, 4, 8, 16}):
        p.error(f"--sequences: llmrun bench batch measures 1, 2, 4, 8 and 16 sequences, not {unknown}")
    return a


def output(command, env=None):
    return subprocess.run([str(x) for x in command], check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


def bench_batch(a, pack):
    command = [a.llmrun, "bench", "batch", "-m", pack, "--tg", a.tokens, "-r", 1, "--threads", a.threads, "--json"]
    tests = json.loads(output(command + (["--ram", a.ram] if a.ram else [])))
    return {t["n"]: t["tok_per_s"] for t in tests if t["n"] in a.sequences}


class Server:
    """llmrun serve with the pack, on a free port."""

    def __init__(self, a, pack):
        self.a = a
        command = [a.llmrun, "serve", "--listen", "127.0.0.1:0", "--model", f"m={pack}", "--no-kv-cache"] + (["--ram", a.ram] if a.ram else [])
        self.process = subprocess.Popen([str(x) for x in command], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://[\d.]+:\d+", line):
                self.address = found[0]
                break
        else:
            raise SystemExit("llmrun serve did not begin")
        # Requests write lines, which somebody must read.
        concurrent.futures.ThreadPoolExecutor(1).submit(self.process.stderr.read)

    def ask(self, prompt, tokens):
        body = {"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        request = urllib.request.Request(self.address + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["usage"]["completion_tokens"]

    def speeds(self):
        self.ask("warm", 4)  # opens the model
        speeds = {}
        for n in self.a.sequences:
            with concurrent.futures.ThreadPoolExecutor(n) as pool:
                begun = time.monotonic()
                got = list(pool.map(lambda i: self.ask(chr(ord("A") + i), self.a.tokens), range(n)))
                speeds[n] = sum(got) / (time.monotonic() - begun)
            if sum(got) < n * self.a.tokens:
                print(f"answers of {n} clients ended early, behind {got} tokens: their passes were shared by fewer", file=sys.stderr)
        return speeds

    def close(self):
        self.process.terminate()
        self.process.wait()


def clients(a, pack):
    server = Server(a, pack)
    try:
        return server.speeds()
    finally:
        server.close()


def libraries(a, program):
    path = a.libraries.resolve()
    folder = path.parent if path.suffix == ".so" else path
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    lines = output([program, path, a.model, a.threads, a.tokens, *a.sequences], env).split()
    return {int(n): float(speed) for n, speed in zip(lines[::2], lines[1::2])}


def compile_peer(a):
    folder = a.libraries.resolve()
    folder = folder.parent if folder.suffix == ".so" else folder
    library = {name: next(folder.glob(f"lib{name}.v*.so")).name for name in ["llama", "ggml"]}
    program = HOME / "peer"
    subprocess.run(["gcc", "-O2", "-o", program, ROOT / "scripts" / "bench-batch-peer.c", f"-L{folder}", f"-l:{library['llama']}", f"-l:{library['ggml']}",
                    f"-Wl,-rpath,{folder}", "-Wl,--allow-shlib-undefined"], check=True)
    return program


def batched_bench(a, program, more):
    """Runs llama-batched-bench of any version, whose table has a row for each number of sequences: | PP | TG | B | N_KV | T_PP | S_PP | T_TG | S_TG |."""
    list_ = ",".join(map(str, a.sequences))
    text = output([program, "-m", a.model, "-c", max(a.sequences) * (a.tokens + 64), "-npp", 16, "-ntg", a.tokens, "-npl", list_, "-t", a.threads,
                   "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0", *more])
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if re.match(r"\|\s*\d", line)]
    return {int(row[2]): float(row[7]) for row in rows}


def usage(program):
    got = subprocess.run([program, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return got.stdout


def main():
    a = arguments()
    HOME.mkdir(parents=True, exist_ok=True)
    pack = HOME / (a.model.stem + ".pack")
    subprocess.run([a.llmrun, "import", a.model, "-o", pack, "--force"], check=True, stdout=sys.stderr)
    engines = {"bench batch": lambda: bench_batch(a, pack), "clients": lambda: clients(a, pack)}
    if not a.ram:
        if a.libraries:
            program = compile_peer(a)
            engines["llama.cpp"] = lambda: libraries(a, program)
        for peer in a.peer:
            name, path = peer.split("=", 1)
            engines[name] = lambda path=path: batched_bench(a, path, [])
            if "-rtr" in usage(path):
                engines[name + " -rtr"] = lambda path=path: batched_bench(a, path, ["-rtr"])
    if (load := os.getloadavg()[0]) > 0.5:
        print(f"warning: other programs keep the machine busy (load {load:.1f})", file=sys.stderr)
    samples = {name: [] for name in engines}
    names = list(engines)
    for i in range(a.rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            samples[name].append(engines[name]())
            print(f"round {i + 1} of {a.rounds}, {name}: " + ", ".join(f"{n}: {x:.1f}" for n, x in samples[name][-1].items()), file=sys.stderr)
    pack.unlink()
    if a.json:
        a.json.write_text(json.dumps(samples))
    show(a, samples)


def show(a, samples):
    median = {name: {n: statistics.median(s[n] for s in all_) for n in a.sequences} for name, all_ in samples.items()}
    print(f"{a.model.name}, {a.threads} threads, {a.tokens} tokens of each sequence, medians of {a.rounds} rounds, tokens per second of all together\n")
    print("| sequences | " + " | ".join(median) + " |\n|---:|" + "---:|" * len(median))
    for n in a.sequences:
        print(f"| {n} | " + " | ".join(f"{median[name][n]:.1f}" for name in median) + " |")
    print()
    ours, most, least = median["bench batch"], max(a.sequences), min(a.sequences)
    print(f"{most} sequences by {least}: {ours[most] / ours[least]:.2f}; clients by bench batch, {most} of each: {median['clients'][most] / ours[most]:.2f}")
    for name in median:
        if name not in ("bench batch", "clients"):
            print(f"bench batch by {name}, {most} sequences: {ours[most] / median[name][most]:.2f}")


if __name__ == "__main__":
    main()
