package cli

import (
	"flag"
	"fmt"
)

// Other programs have other names for some flags. These names are not aliases: an error names
// our flag, so that a script reads the same everywhere.

// ForeignFlags maps the flag names of other programs to ours.
var ForeignFlags = map[string]string{
	"c": "ctx", "ctx-size": "ctx", "num-ctx": "ctx", "num_ctx": "ctx", "context": "ctx",
	"t": "threads", "num-threads": "threads",
	"predict": "n", "n-predict": "n", "num-predict": "n", "num_predict": "n", "max-tokens": "n", "max_tokens": "n",
	"temperature": "temp", "s": "seed",
	"r": "stop", "reverse-prompt": "stop",
	"sys": "system", "system-prompt": "system",
	"ngl": "gpu-layers", "n-gpu-layers": "gpu-layers", "dev": "device",
	"ctk": "kv", "ctv": "kv", "cache-type-k": "kv", "cache-type-v": "kv",
	"mlock": "pin", "mmap": "pin", "no-mmap": "pin",
	"context-shift": "overflow", "prompt-cache": "session",
	"format": "json", "memory": "ram",
	"sp": "parse-special", "special": "parse-special",
}

// foreignFlagHint names our flag for a flag name of another program, or returns "" if known has
// no such flag.
func foreignFlagHint(name string, known *flag.FlagSet) string {
	ours := ForeignFlags[name]
	if ours == "" || known.Lookup(ours) == nil {
		return ""
	}
	return fmt.Sprintf("; here it is %s", dashed(ours))
}

// foreignArgumentHint names the flags of the prompt and the model, which other programs take as
// arguments. It returns "" for a command without such flags.
func foreignArgumentHint(known *flag.FlagSet) string {
	switch {
	case known.Lookup("p") != nil:
		return ": the prompt is -p TEXT, and the model -m PATH"
	case known.Lookup("m") != nil:
		return ": the model is -m PATH"
	}
	return ""
}
