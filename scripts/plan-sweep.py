#!/usr/bin/env python3
"""Compares what llmrun plan predicts with what llmrun run measures.

Each cell is a model, a disk speed, a context, a budget and a length of the prompt. The script
plans it, runs it with random token ids, and prints a Markdown table of predicted and measured
times. A cell that plan refuses must be refused by run in the same words, and the process must not
hold more than its budget and 1 MiB: the column "beyond" is its VmHWM less the budget.

usage: scripts/plan-sweep.py LLMRUN MODEL... [--disks 1GB/s,none] [--contexts 2048,8192]
       [--rams 25%,50%,100%,all] [--prompts 256,half,full] [--answer 16] [--threads 2] [--flags "--kv k8v8"] [--teach] [--judge]

MODEL is a pack, a GGUF file, which is streamed without a pack, or "bundled". A percentage of --rams is one of its size;
"least" is the smallest budget that plan states. The prompt "half" is half of the context, and "full" leaves room for the answer.
A larger context than the model's is the model's. Answers are drawn at temperature 1 with a fixed seed: at 0 random weights soon repeat one
token, and with it the experts that it uses. The first plan of a model with experts takes its router for an even one; with --teach
each model runs its first cell once before it counts, so that all plans know the router. With --judge the script fails if decode is off by more than 20 % in more than a
tenth of the cells, or the first token by more than 25 %.
"""
import argparse, json, math, os, random, shlex, statistics, subprocess, sys, tempfile


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("llmrun")
    p.add_argument("models", nargs="+")
    p.add_argument("--disks", default="1GB/s")
    p.add_argument("--contexts", default="2048,8192")
    p.add_argument("--rams", default="25%,50%,100%,all")
    p.add_argument("--prompts", default="256,full")
    p.add_argument("--answer", type=int, default=16)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--flags", default="", help="more flags for both commands")
    p.add_argument("--rounds", type=int, default=1, help="plans and runs of a cell, in turns; the medians count")
    p.add_argument("--judge", action="store_true", help="fail if the predictions are not as good as promised")
    p.add_argument("--teach", action="store_true", help="run the first cell of each model once before it counts")
    p.add_argument("--measure", action="store_true", help="measure the machine before each cell")
    return p.parse_args()


def call(command, stdin=None):
    """Runs a command and returns its exit code, its JSON object, and the last line of errors."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    text = done.stdout.strip()
    errors = done.stderr.strip().splitlines() or [""]
    return done.returncode, json.loads(text) if text else {}, errors[-1]


def median(pairs):
    return tuple(statistics.median(values) for values in zip(*pairs))


class Model:
    """A model of the command line, and what llmrun says of it."""

    def __init__(self, a, path):
        bundled = path == "bundled"
        self.name = os.path.basename(path).removesuffix(".pack")
        self.flags = [] if bundled else ["-m", path]
        self.flags += ["--no-import"] if path.endswith(".gguf") else []
        said = call([a.llmrun, "inspect", "--json"] + ([] if bundled else [path]))[1]
        self.size, self.vocabulary, self.context = said["weight_bytes"], said["vocab"], said["max_context"]
        self.size = self.size if bundled else os.path.getsize(path)


class Cell:
    def __init__(self, a, cache, model, disk, context, ram, prompt):
        context = min(context, model.context)
        budget = str(model.size * int(ram[:-1]) // 100) if ram.endswith("%") else ram
        if ram == "least":
            budget = str(call([a.llmrun, "plan", *model.flags, "--ctx", str(context), "--ram", "1MiB", "--threads", str(a.threads), "--cache-dir", cache, "--json"] + shlex.split(a.flags))[1]["minimum_bytes"])
        self.name = (model.name, disk, context, ram)
        self.prompt = {"full": context - a.answer, "half": context // 2}.get(prompt) or min(int(prompt), context - a.answer)
        self.answer, self.rounds = a.answer, a.rounds
        self.flags = [*model.flags, "--ctx", str(context), "--ram", budget, "--threads", str(a.threads), "--cache-dir", cache, "--draft", "off", "--json"] + shlex.split(a.flags)
        if disk != "none":
            self.flags += ["--disk", disk]
        self.plan_command = [a.llmrun, "plan", *self.flags, "--ids", "-", "--answer", str(a.answer)] + (["--measure"] if a.measure else [])
        self.run_command = [a.llmrun, "run", *self.flags, "--ids", "-", "-n", str(a.answer), "--ignore-eos", "--temp", "1", "--seed", "1", "--no-kv-cache", "--stats", "-q"]
        draw = random.Random(1)
        self.ids = ",".join(str(draw.randrange(model.vocabulary // 32, model.vocabulary * 15 // 16)) for _ in range(self.prompt))

    def measure(self):
        """Fills in the predictions and the measurements; returns an error, or None."""
        predicted, measured, beyond = [], [], []
        for _ in range(self.rounds):
            code, plan, refused = call(self.plan_command, self.ids)
            ran, result, error = call(self.run_command, self.ids)
            if ran != code or code != 0 and error != refused:
                return f"plan says {code} {refused!r}, run says {ran} {error!r}"
            self.refused = code != 0
            if self.refused:
                return None
            first = plan["first_token_seconds"]
            predicted.append((first, (self.answer - 1) / (plan["total_seconds"] - first)))
            measured.append((result["first_token_seconds"], result["decode_tok_per_s"]))
            self.cold = result["stats"]["kv"]["cold_tokens"]
            limit = result["stats"]["budget_bytes"] or math.inf  # 0: none
            beyond.append(result["stats"]["vm_hwm_bytes"] - limit)
        self.predicted, self.measured = median(predicted), median(measured)
        self.beyond = max(beyond) / (1 << 20)
        return None if self.beyond <= 1 else f"the process held {self.beyond:.1f} MiB more than its budget"

    def row(self):
        model, disk, context, ram = self.name
        head = f"| {model} | {disk} | {context} | {ram} | {self.prompt} |"
        if self.refused:
            return head + " refused by both ||||||||"
        (first, decode), (first_seen, decode_seen) = self.predicted, self.measured
        return head + (f" {self.cold} | {first:.2f} | {first_seen:.2f} | {100 * (first / first_seen - 1):+.0f} % |"
                       f" {decode:.2f} | {decode_seen:.2f} | {100 * (decode / decode_seen - 1):+.0f} % | {self.beyond:+.1f} |")


def within(pairs, share):
    return sum(abs(p / m - 1) <= share for p, m in pairs) / max(1, len(pairs))


def main():
    a = arguments()
    print("| model | disk | context | RAM | prompt | cold tokens | first token s, predicted | measured | off | decode tok/s, predicted | measured | off | beyond, MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    cells, wrong = [], []
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        for model in [Model(a, path) for path in a.models]:
            # Measures the machine, for the plans of all cells.
            call([a.llmrun, "plan", *model.flags, "--ram", "all", "--threads", str(a.threads), "--cache-dir", cache, "--json"] + shlex.split(a.flags))
            if a.teach:
                disk, context, ram, prompt = (values.split(",")[0] for values in (a.disks, a.contexts, a.rams, a.prompts))
                Cell(a, cache, model, disk, int(context), ram, prompt).measure()
            for disk in a.disks.split(","):
                for context in map(int, a.contexts.split(",")):
                    for ram in a.rams.split(","):
                        for prompt in a.prompts.split(","):
                            cell = Cell(a, cache, model, disk, context, ram, prompt)
                            error = cell.measure()
                            if error:
                                wrong.append(error)
                                print(f"{cell.name}: {error}", file=sys.stderr)
                                continue
                            cells.append(cell)
                            print(cell.row(), flush=True)
    ran = [c for c in cells if not c.refused]
    decode = within([(c.predicted[1], c.measured[1]) for c in ran], 0.2)
    first = within([(c.predicted[0], c.measured[0]) for c in ran], 0.25)
    print()
    print(f"plan and run agree, within the budget and 1 MiB, in {len(cells)} of {len(cells) + len(wrong)} cells;",
          f"decode within 20 % in {decode:.0%} of {len(ran)}, first token within 25 % in {first:.0%}")
    return 1 if wrong or a.judge and (decode < 0.9 or first < 0.9 or not ran) else 0


if __name__ == "__main__":
    sys.exit(main())
