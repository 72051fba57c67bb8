package cli

import (
	"flag"
	"fmt"
)

// Names that other programs give to flags. An error names ours instead: they are not aliases,
// so that a script means the same everywhere.

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
	"format": "json",
	"sp":     "parse-special", "special": "parse-special",
}

// foreignFlagHint says what a flag of another program is called among those known here, "" if
// nothing is.
func foreignFlagHint(name string, known *flag.FlagSet) string {
	ours := ForeignFlags[name]
	if ours == "" || known.Lookup(ours) == nil {
		return ""
	}
	return fmt.Sprintf("; here it is %s", dashed(ours))
}

// foreignArgumentHint says where what other programs take as arguments belongs, for a command
// with these flags; "" if it takes none of that.
func foreignArgumentHint(known *flag.FlagSet) string {
	switch {
	case known.Lookup("p") != nil:
		return ": the prompt is -p TEXT, and the model -m PATH"
	case known.Lookup("m") != nil:
		return ": the model is -m PATH"
	}
	return ""
}
