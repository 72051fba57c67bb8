#!/usr/bin/env python3
"""Checks that llmrun holds its memory budget and that plan and run agree, and prints a Markdown table.

Each cell is a model, a budget and a prompt. The models are the bundled one, a GGUF file, a directory with
safetensors and a pack, dense and with experts, merged with an adapter or with one beside the weights, with
--quant and with --exact. The budgets are the minimum that plan states, and those of --budgets. The prompts
have up to 10 MB; models without a tokenizer get token ids. Where the script may create control groups (root),
each process runs in one of its budget and 5 %, without swap.

A cell fails if the last VmHWM of the process exceeds the budget by more than 1 MiB, if the kernel kills the
process, if its exit code is none of 0 (answered), 1 (the prompt exceeds the context) and 3 (refused for
memory), or if plan, which knows only about how many tokens the prompt has, accepts what run refuses or refuses what run
accepts. Both refuse in the same words, except for their numbers, or the table says "both refuse": for a text, whose bytes
plan does not know. --overflow slide drops the oldest tokens of the long prompts, so that they are answered; of texts, for
which plan then reserves memory by their number of tokens, only the ids of the others are compared.

usage: scripts/budget-sweep.py LLMRUN [--budgets 45MiB,64MiB,150MiB] [--prompts short,200KB,3MB,10MB]
       [--models REGEX] [--part I/N] [--threads 2] [--overflow stop]

--part 2/5 runs the second fifth of the cells. The script writes about 50 MB to a temporary directory.
"""
import argparse, json, os, pathlib, re, shutil, signal, subprocess, sys, tarfile, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLACK = 1 << 20
LINE = "the fox ran into a forest; QzXw%7\n"
UNITS = {"KB": 1e3, "MB": 1e6, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def arguments():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    p.add_argument("llmrun")
    p.add_argument("--budgets", default="45MiB,64MiB,150MiB")
    p.add_argument("--prompts", default="short,200KB,3MB,10MB")
    p.add_argument("--models", default="")
    p.add_argument("--part", default="1/1")
    p.add_argument("--threads", default="2")
    p.add_argument("--overflow", default="stop")
    return p.parse_args()


def size(text):
    number, unit = re.fullmatch(r"([\d.]+)([A-Za-z]+)", text).groups()
    return int(float(number) * UNITS[unit])


class Group:
    """A memory control group of version 1 or 2; without the right to create one it does nothing."""

    def __init__(self):
        v1 = pathlib.Path("/sys/fs/cgroup/memory")
        self.v2 = not v1.is_dir()
        self.dir = (pathlib.Path("/sys/fs/cgroup") if self.v2 else v1) / f"llmrun-budget-sweep-{os.getpid()}"
        try:
            self.dir.mkdir()
            self.write("memory.max" if self.v2 else "memory.limit_in_bytes", 1 << 40)
            self.works = True
        except OSError as why:
            self.works = False
            print(f"budget-sweep: without control groups: {why}", file=sys.stderr)
        self.close()

    def write(self, name, value):
        (self.dir / name).write_text(str(value))

    def open(self, limit):
        if not self.works:
            return
        self.dir.mkdir()
        self.write("memory.max" if self.v2 else "memory.limit_in_bytes", limit)
        swap = "memory.swap.max" if self.v2 else "memory.swappiness"
        if (self.dir / swap).exists():
            self.write(swap, 0)

    def enter(self):
        """Moves the calling process into the group, before it becomes llmrun."""
        if self.works:
            self.write("cgroup.procs", os.getpid())

    def kills(self):
        if not self.works:
            return 0
        events = (self.dir / ("memory.events" if self.v2 else "memory.oom_control")).read_text()
        return int(re.search(r"^oom_kill (\d+)", events, re.M).group(1))

    def close(self):
        for _ in range(100):  # the kernel may need several attempts
            try:
                self.dir.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)


def run(group, limit, command, stdin=None):
    """Runs a command in a group. Returns its exit code, the last line of errors, its peak and the kernel's kills."""
    group.open(limit + limit // 20)
    process = subprocess.Popen(command, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, preexec_fn=group.enter)
    errors, program = [], os.path.realpath(command[0])
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    try:
        peak = peak_of(process, program)
    finally:  # a stopped script leaves no process and no group
        process.kill()
        process.wait()
        reader.join()
        kills = group.kills()
        group.close()
    lines = errors[0].decode(errors="replace").strip().splitlines() or [""]
    return process.returncode, lines[-1], peak, kills


def peak_of(process, program):
    """Returns the last VmHWM of a process."""
    peak = 0
    while process.poll() is None:
        try:
            if os.readlink(f"/proc/{process.pid}/exe") == program:  # not this script's child before it is llmrun
                found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
                peak = max(peak, int(found.group(1)) << 10) if found else peak
        except OSError:
            pass
        time.sleep(0.002)
    return peak


def unpack(name, to):
    with tarfile.open(ROOT / "testdata" / "fixtures" / f"{name}.tar.bz2") as archive:
        archive.extractall(f"{to}/{name}", filter="data")
    return f"{to}/{name}"


def models(a, to):
    """Writes the models. Returns (name, flags, whether the model has a tokenizer for texts)."""
    def llmrun(*flags):
        subprocess.run([a.llmrun, *flags], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for shape in ("tiny", "tiny-moe"):
        llmrun("synth", "--shape", shape, "--quant", "q8_0", "-o", f"{to}/{shape}.gguf")
        llmrun("import", f"{to}/{shape}.gguf", "-o", f"{to}/{shape}.pack")
    pack = str(ROOT / "cmd" / "llmrun" / "bundled" / "model.pack")
    dense, experts = unpack("llama32", to), unpack("mixtral", to)
    return [
        ("bundled", [], True), ("bundled, --exact", ["--exact"], True), ("bundled, --quant q4", ["--quant", "q4"], True),
        ("pack", ["-m", pack], True), ("pack, --kv k8v8", ["-m", pack, "--kv", "k8v8"], True),
        ("GGUF", ["-m", f"{to}/tiny.gguf"], False), ("GGUF, --exact", ["-m", f"{to}/tiny.gguf", "--exact"], False),
        ("GGUF, --no-import", ["-m", f"{to}/tiny.gguf", "--no-import"], False),
        ("GGUF of experts", ["-m", f"{to}/tiny-moe.gguf"], False), ("pack of experts", ["-m", f"{to}/tiny-moe.pack"], False),
        ("pack of quantized weights", ["-m", f"{to}/tiny.pack"], False),
        ("safetensors", ["-m", dense], False), ("safetensors, --quant q8", ["-m", dense, "--quant", "q8"], False),
        ("safetensors of experts", ["-m", experts], False),
        ("safetensors, --lora", ["-m", dense, "--lora", dense + "/lora_qv"], False),
        ("safetensors, --lora-beside", ["-m", dense, "--lora", dense + "/lora_all", "--lora-beside"], False),
    ]


def prompts(a, to):
    """Writes the prompts as texts and as lists of ids of about the same size. Returns name, files, lines and ids."""
    for name in a.prompts.split(","):
        text, ids = f"{to}/{name}.txt", f"{to}/{name}.ids"
        bytes = len(LINE) if name == "short" else size(name)
        lines, tokens = bytes // len(LINE), 3 if name == "short" else bytes // 3
        pathlib.Path(text).write_text(LINE * lines)
        pathlib.Path(ids).write_text("1,2,3" if name == "short" else ",".join(["12"] * tokens))
        yield name, text, ids, lines, tokens


def tokens_of_line(a, flags):
    """Returns how many tokens a line of the texts has."""
    said = subprocess.run([a.llmrun, "tokenize", "--json", *flags[:2 if "-m" in flags else 0], "--", LINE * 64], capture_output=True, text=True, check=True)
    return len(json.loads(said.stdout)["ids"]) / 64


def words(error):
    """Returns a refusal without its numbers, and without the advice for the session of a run."""
    error = re.split("; the context holds |; use a shorter prompt", error)[0].replace("at least ", "")
    return re.sub(r"[\d.]+( [KMG]iB)?", "#", error)


def agreement(run, plan, text):
    """Compares the exit code and the refusal of a run with those of its plan."""
    (code, error), (planned, said) = run, plan
    if planned == code and (code == 0 or words(said) == words(error)):
        return "agree"
    return "both refuse" if text and planned and code else f"plan: {planned} {said}"


def main():
    a = arguments()
    a.llmrun = os.path.realpath(a.llmrun)
    part, parts = map(int, a.part.split("/"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C, so that what is running is cleaned up
    group, failed, cells, done = Group(), [], 0, 0
    print("| model | budget | prompt | held at most, MiB | beyond the budget | exit code | plan and run |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as to:
        texts, number = list(prompts(a, to)), 0
        for name, flags, tokenizer in models(a, to):
            if not re.search(a.models, name):
                continue
            cache = tempfile.mkdtemp(dir=to)
            each = tokens_of_line(a, flags) if tokenizer else 0
            common = [*flags, "--threads", a.threads, "--overflow", a.overflow] + (["--allow-truncate"] if a.overflow == "slide" else []) + ([] if "--no-import" in flags else ["--cache-dir", cache])
            planned = subprocess.run([a.llmrun, "plan", *common, "--ram", "1MiB", "--json"], capture_output=True, text=True)
            least = json.loads(planned.stdout)["minimum_bytes"]
            for budget in [least] + [size(b) for b in a.budgets.split(",")]:
                for prompt, text, ids, lines, tokens in texts:
                    number += 1
                    if number % parts != part % parts:
                        continue
                    flags = [*common, "--ram", str(budget)]
                    command = [a.llmrun, "run", *flags, "-n", "4", "--temp", "0", "-q"] + (["-f", text] if tokenizer else ["--ids", "-"])
                    with open(ids) as stdin:
                        code, error, peak, kills = run(group, budget, command, None if tokenizer else stdin)
                    agreed = "–"
                    if a.overflow != "slide" or not tokenizer:
                        asked = ["--prompt", str(int(each * lines) + 1)] if tokenizer else ["--ids", "-"]
                        with open(ids) as stdin:
                            plan = subprocess.run([a.llmrun, "plan", *flags, *asked, "--answer", "4"], stdin=stdin, capture_output=True, text=True)
                        said = (plan.stderr.strip().splitlines() or [""])[-1]
                        agreed = agreement((code, error), (plan.returncode, said), tokenizer)
                    beyond = peak - budget
                    wrong = beyond > SLACK or kills or code not in (0, 1, 3) or agreed not in ("–", "agree", "both refuse")
                    cells, done = cells + 1, done + (code == 0)
                    if wrong:
                        failed.append(f"{name}, {budget}, {prompt}: {error}")
                    print(f"| {name} | {budget / (1 << 20):.1f} MiB{' (minimum)' if budget == least else ''} | {prompt} | {peak / (1 << 20):.1f} |"
                          f" {beyond / (1 << 20):+.1f} MiB | {code}{', killed' if kills else ''} | {'**' + agreed + '**' if wrong else agreed} |", flush=True)
            shutil.rmtree(cache)
    print(f"\n{cells - len(failed)} of {cells} cells hold; {done} answered{'' if group.works else '; without control groups'}")
    for text in failed:
        print("budget-sweep:", text, file=sys.stderr)
    return 1 if failed or cells == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
