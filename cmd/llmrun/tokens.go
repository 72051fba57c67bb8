package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func tokenizeCommand() *cli.Command {
	return &cli.Command{
		Name:     "tokenize",
		Synopsis: "[-m MODEL] [flags] -- TEXT",
		Summary:  "print the tokens of a text",
		About: `Splits TEXT, or standard input, into the model's tokens, and prints one token per line: its id and its text in the vocabulary. The model may be only a vocabulary: a GGUF file without tensors, or a tokenizer.json. Text such as <|im_end|> becomes a special token, as in the output of a chat template; --plain treats it as plain text, as in a prompt or a message.

--json prints {"ids":[...],"tokens":[...]}.`,
		Examples: []cli.Example{
			{Line: `llmrun tokenize -- "Hello, world!"`, Purpose: "ids and tokens"},
			{Line: `llmrun tokenize -m tokenizer.json --json -- "Hello, world!"`, Purpose: "the same for a script, from a vocabulary file"},
			{Line: `llmrun tokenize -m model.gguf < notes.md | wc -l`, Purpose: "count the tokens of a file"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			t := &tokenizeFlags{}
			t.model.addModel(f)
			f.Group("Tokens")
			f.Toggle(&t.special, "special", "add the model's begin and end tokens")
			f.Toggle(&t.plain, "plain", "text such as <|im_end|> stays plain text, as in a prompt of run")
			f.Group("Output")
			f.Toggle(&t.json, "json", "print one JSON object")
			return t.run
		},
	}
}

// tokenizeFlags are the flags of tokenize.
type tokenizeFlags struct {
	model                modelFlags
	special, plain, json bool
}

// run splits the arguments, joined by spaces, or standard input.
func (t *tokenizeFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if s.InTerminal {
			return cli.Usagef("the text is missing: give it after --, or pipe it in")
		}
		piped, err := cli.ReadAll(s, "TEXT", "-")
		if err != nil {
			return err
		}
		text = piped
	}
	tokenizer, err := t.model.tokenizer()
	if err != nil {
		return err
	}
	ids, err := tokenizer.Encode(text, llmrun.EncodeOptions{Special: t.special, ParseSpecial: !t.plain})
	if err != nil {
		return err
	}
	pieces := make([]string, len(ids))
	for i, id := range ids {
		pieces[i], _ = tokenizer.Piece(id)
	}
	if t.json {
		return s.Out.WriteJSON(struct {
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		}{notNull(ids), pieces})
	}
	for i, id := range ids {
		fmt.Fprintf(s.Out, "%7d  %q\n", id, pieces[i])
	}
	return nil
}

func detokenizeCommand() *cli.Command {
	return &cli.Command{
		Name:     "detokenize",
		Synopsis: "[-m MODEL] --ids LIST [flags]",
		Summary:  "print the text of token ids",
		About: `Prints the text of token ids exactly, with no line break added. The model may be only a vocabulary: a GGUF file without tensors, or a tokenizer.json.

--json prints {"text":"..."}.`,
		Examples: []cli.Example{
			{Line: "llmrun detokenize --ids 4972,15,950,4", Purpose: "the text of four tokens"},
			{Line: `llmrun detokenize -m tokenizer.json --ids "4972 15 950 4" --json`, Purpose: "the same for a script, from a vocabulary file"},
			{Line: "llmrun detokenize -m model.gguf --ids - < ids.txt", Purpose: "ids from a file"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			d := &detokenizeFlags{}
			d.model.addModel(f)
			f.Group("Tokens")
			f.Text(&d.ids, "ids", "LIST", "token ids, separated by commas or white space; - reads them from standard input")
			f.Group("Output")
			f.Toggle(&d.json, "json", "print one JSON object")
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
func (d *detokenizeFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	ids, err := readIDs(s, d.ids, nil)
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
	return s.Out.ExactText(text, d.json)
}
