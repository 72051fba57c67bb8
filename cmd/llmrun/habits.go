package main

import (
	"flag"
	"fmt"
)

// What other programs call flags and commands. Who types one of these names is told
// ours: they are no second names, so that a script means the same everywhere.

var flagHabits = map[string]string{
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
	"sp": "parse-special", "special": "parse-special",
}

var commandHabits = map[string]string{
	"serve":    "there is no server: run answers one prompt, chat holds a conversation, and the Go library does both in a program",
	"server":   "there is no server: run answers one prompt, chat holds a conversation, and the Go library does both in a program",
	"pull":     "nothing is downloaded: -m takes a model that is on this machine",
	"download": "nothing is downloaded: -m takes a model that is on this machine",
	"list":     "models are files: llmrun cache lists those that were imported, and llmrun sessions what was said",
	"ls":       "models are files: llmrun cache lists those that were imported, and llmrun sessions what was said",
	"rm":       "llmrun cache rm deletes imported models, and llmrun sessions rm conversations",
	"show":     "llmrun inspect shows what a model is",
	"info":     "llmrun inspect shows what a model is",
	"create":   "llmrun import writes a model in the form that loads fastest",
	"convert":  "llmrun import writes a model in the form that loads fastest",
	"quantize": "llmrun import --quant writes a model with rounded weights",
	"complete": "llmrun run --raw continues a text",
	"generate": "llmrun run answers a prompt",
	"-m":       "the command comes first, as in llmrun run -m MODEL -p TEXT",
	"-p":       "the command comes first, as in llmrun run -p TEXT",
}

// flagHabit says what a flag of another program is called among those known here, "" if
// nothing is.
func flagHabit(name string, known *flag.FlagSet) string {
	ours := flagHabits[name]
	if ours == "" || known.Lookup(ours) == nil {
		return ""
	}
	return fmt.Sprintf("; here it is %s", dashed(ours))
}

// placeHabit says where what other programs take as arguments belongs, for a command
// with these flags; "" if it takes none of that.
func placeHabit(known *flag.FlagSet) string {
	switch {
	case known.Lookup("p") != nil:
		return ": the prompt is -p TEXT, and the model -m PATH"
	case known.Lookup("m") != nil:
		return ": the model is -m PATH"
	}
	return ""
}
