package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
)

func tokenizeCommand() *command {
	return &command{
		name:     "tokenize",
		synopsis: "[-m MODEL] [flags] -- TEXT",
		summary:  "show the tokens of a text",
		about: `Splits TEXT, or what is piped in, into the model's tokens, and prints an id and the token as the vocabulary spells it on each line. The model may be a vocabulary alone: a GGUF file without tensors, or a tokenizer.json. Special tokens that TEXT spells are recognised, as in the text that a chat template makes; --plain shows what a prompt or a message would become.

--json prints {"ids":[...],"tokens":[...]}.`,
		examples: []example{
			{`llmrun tokenize -- "Hello, world!"`, "ids and tokens"},
			{`llmrun tokenize -m tokenizer.json --json -- "Hello, world!"`, "the same for a script, from a vocabulary alone"},
			{`llmrun tokenize -m model.gguf < notes.md | wc -l`, "count the tokens of a file"},
		},
		prepare: func(f *flagSet) action {
			t := &tokenizeFlags{}
			t.model.addModel(f)
			f.group("Tokens")
			f.toggle(&t.special, "special", "add the begin and end tokens that the model asks for")
			f.toggle(&t.plain, "plain", "special tokens that TEXT spells, such as <|im_end|>, stay plain text, as in a prompt for run")
			f.group("Output")
			f.toggle(&t.json, "json", "print one JSON object")
			return t.run
		},
	}
}

// tokenizeFlags are the flags of tokenize.
type tokenizeFlags struct {
	model                modelFlags
	special, plain, json bool
}

// run splits the arguments, joined by spaces as echo joins them, or what is piped in.
func (t *tokenizeFlags) run(_ context.Context, s *streams, args []string) error {
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if s.inTerminal {
			return usagef("there is no text: give it after --, or pipe it in")
		}
		piped, err := readAll(s, "TEXT", "-")
		if err != nil {
			return err
		}
		text = piped
	}
	tokenizer, err := t.model.tokenizer()
	if err != nil {
		return err
	}
	ids := tokenizer.Encode(text, llmrun.EncodeOptions{Special: t.special, ParseSpecial: !t.plain})
	pieces := make([]string, len(ids))
	for i, id := range ids {
		pieces[i], _ = tokenizer.Piece(id)
	}
	if t.json {
		if ids == nil {
			ids = []int32{} // an empty list rather than null
		}
		return s.out.json(struct {
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		}{ids, pieces})
	}
	for i, id := range ids {
		fmt.Fprintf(s.out, "%7d  %q\n", id, pieces[i])
	}
	return nil
}

func detokenizeCommand() *command {
	return &command{
		name:     "detokenize",
		synopsis: "[-m MODEL] --ids LIST [flags]",
		summary:  "show the text of token ids",
		about: `Prints the text that token ids stand for, exactly, with no line break added. The model may be a vocabulary alone: a GGUF file without tensors, or a tokenizer.json.

--json prints {"text":"..."}.`,
		examples: []example{
			{"llmrun detokenize --ids 4972,15,950,4", "the text of four tokens"},
			{`llmrun detokenize -m tokenizer.json --ids "4972 15 950 4" --json`, "the same for a script, from a vocabulary alone"},
			{"llmrun detokenize -m model.gguf --ids - < ids.txt", "ids from a file"},
		},
		prepare: func(f *flagSet) action {
			d := &detokenizeFlags{}
			d.model.addModel(f)
			f.group("Tokens")
			f.text(&d.ids, "ids", "LIST", "token ids, separated by commas or white space; - reads them from standard input")
			f.group("Output")
			f.toggle(&d.json, "json", "print one JSON object")
			return d.run
		},
	}
}

// detokenizeFlags are the flags of detokenize.
type detokenizeFlags struct {
	model modelFlags
	ids   string
	json  bool
}

// run prints the text of the ids.
func (d *detokenizeFlags) run(_ context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	ids, err := readIDs(s, d.ids)
	if err != nil {
		return err
	}
	tokenizer, err := d.model.tokenizer()
	if err != nil {
		return err
	}
	if err := checkIDs("--ids", ids, tokenizer.VocabSize()); err != nil {
		return err
	}
	text, err := tokenizer.Decode(ids)
	if err != nil {
		return err
	}
	return s.out.exactText(text, d.json)
}

// exactText writes text to a file or pipe as it is, or as a JSON object. A
// terminal is spared its control characters and a prompt in the middle of the line.
func (o *output) exactText(text string, asJSON bool) error {
	switch {
	case asJSON:
		return o.json(struct {
			Text string `json:"text"`
		}{text})
	case o.terminal:
		o.modelText(text)
		o.endLine()
	default:
		fmt.Fprint(o, text)
	}
	return nil
}
