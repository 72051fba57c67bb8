#!/usr/bin/env python3
"""Compares how fast llmrun and llama.cpp describe notes, with the same GGUF files of random weights.

LIBRARIES is the directory with llama.cpp's libraries as the npm package node-llama-cpp@3.22.1 has them
(node_modules/@node-llama-cpp/linux-x64/bins/linux-x64). The script compiles scripts/bench-encoders-peer.c with them, which
describes many texts in a batch without padding, and writes models and notes in .scratch/encoders. Each round runs
both in turns. It prints a Markdown table of medians: tokens per second (llama.cpp without the time in which it loads the
model, llmrun with it), seconds of processor time, and the highest peak of resident memory.

usage: scripts/bench-encoders.py LLMRUN LIBRARIES [--shape bge-small nomic-embed-text] [--notes 1000] [--rounds 3] [--threads 2]
"""
import argparse, json, os, pathlib, random, re, statistics, subprocess, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / ".scratch" / "encoders"


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("llmrun", type=pathlib.Path)
    p.add_argument("libraries", type=pathlib.Path)
    p.add_argument("--shape", nargs="+", default=["bge-small", "nomic-embed-text"])
    p.add_argument("--quant", default="q8_0")
    p.add_argument("--notes", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int, default=2048, help="tokens of llama.cpp's batches")
    return p.parse_args()


def peer(libraries):
    """Compiles the program that runs llama.cpp."""
    program = HOME / "peer"
    library = {name: next(libraries.glob(f"lib{name}.v*.so")).name for name in ["llama", "ggml"]}
    subprocess.run(
        ["gcc", "-O2", "-o", program, ROOT / "scripts" / "bench-encoders-peer.c", f"-L{libraries}", f"-l:{library['llama']}", f"-l:{library['ggml']}",
         "-lm", f"-Wl,-rpath,{libraries}", "-Wl,--allow-shlib-undefined"], check=True)
    return program


def notes(n):
    """Writes notes of 20 to 400 tokens, special tokens included: each word is a token of the models."""
    r, texts = random.Random(5), []
    for _ in range(n):
        texts.append(" ".join(f"w{r.randrange(30000)}" for _ in range(r.randint(18, 398))))
    folder = HOME / f"notes-{n}"
    folder.mkdir(exist_ok=True)
    flags = []
    for i, text in enumerate(texts):
        path = folder / f"{i:04}.txt"
        path.write_text(text)
        flags += ["-f", str(path)]
    (HOME / f"notes-{n}.txt").write_text("\n".join(texts) + "\n")
    return flags, HOME / f"notes-{n}.txt"


def run(command, env=None):
    """Runs a command: its output, wall seconds, processor seconds and peak bytes."""
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdout=out, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{command[0]} failed with {process.returncode}")
        out.seek(0)
        return out.read().decode(), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def ours(a, model, flags):
    command = [a.llmrun, "embed", "-m", model, "--threads", a.threads, "--cache-dir", HOME / "cache", "--json", *flags]
    text, wall, cpu, peak = run(command)
    return json.loads(text)["tokens"], wall, cpu, peak


def theirs(a, program, model, texts):
    libraries = a.libraries.resolve()
    text, _, cpu, peak = run([program, libraries, model, texts, a.threads, a.batch], env={**os.environ, "LD_LIBRARY_PATH": str(libraries)})
    found = re.search(r"tokens (\d+) load ([\d.]+) read ([\d.]+)", text)
    return int(found[1]), float(found[3]), cpu, peak


def main():
    a = arguments()
    HOME.mkdir(parents=True, exist_ok=True)
    program = peer(a.libraries.resolve())
    flags, texts = notes(a.notes)
    few, _ = notes(2)
    print("| model | notes | tokens | llmrun tok/s | llama.cpp tok/s | ratio | llmrun CPU s | llama.cpp CPU s | llmrun MiB | llama.cpp MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for shape in a.shape:
        model = HOME / f"{shape}-{a.quant}.gguf"
        if not model.exists():
            subprocess.run([a.llmrun, "synth", "--shape", shape, "--quant", a.quant, "-o", model], check=True)
        ours(a, model, few)  # imports the model
        samples = {"ours": [], "theirs": []}
        for _ in range(a.rounds):
            samples["ours"].append(ours(a, model, flags))
            samples["theirs"].append(theirs(a, program, model, texts))
        tokens = samples["ours"][0][0]
        if any(s[0] != tokens for s in samples["ours"] + samples["theirs"]):
            raise SystemExit(f"the engines read different numbers of tokens: {samples}")
        speed = {who: statistics.median(s[0] / s[1] for s in list) for who, list in samples.items()}
        cpu = {who: statistics.median(s[2] for s in list) for who, list in samples.items()}
        peak = {who: max(s[3] for s in list) / (1 << 20) for who, list in samples.items()}
        print(f"| {shape} {a.quant} | {a.notes} | {tokens} | {speed['ours']:.0f} | {speed['theirs']:.0f} | {speed['ours'] / speed['theirs']:.2f} "
              f"| {cpu['ours']:.1f} | {cpu['theirs']:.1f} | {peak['ours']:.0f} | {peak['theirs']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
