"""Renders the cases of language.json with Jinja2 and writes the results back."""

import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """Accepts {% generation %} blocks and renders their body unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("pass_through")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def pass_through(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(source, variables):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2026, 1, 31, 12).strftime
    defaults = dict(messages=[], tools=None, documents=None, add_generation_prompt=False, bos_token="", eos_token="")
    # Some filters of Jinja modify their input lists, so render a copy.
    return env.from_string(source).render({**defaults, **json.loads(json.dumps(variables))})


def dump(value):
    return json.dumps(value, ensure_ascii=False)


def main(path):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    for case in data["cases"]:
        wording = case.get("error")
        case.pop("rendered", None)
        case.pop("error", None)
        try:
            case["rendered"] = render(case["template"], data["variables"][case["variables"]])
        except Exception as e:
            case["error"] = "" if wording == "" else str(e)
    sets = ",\n".join(f"{dump(name)}: {dump(v)}" for name, v in data["variables"].items())
    cases = ",\n".join(dump(case) for case in data["cases"])
    with open(path, "w", encoding="utf-8") as f:
        f.write('{\n"variables": {\n' + sets + '\n},\n"cases": [\n' + cases + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
