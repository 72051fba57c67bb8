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
		Summary:  "show the tokens of a text",
		About: `Splits TEXT, or what is piped in, into the model's tokens, and prints an id and the token as the vocabulary spells it on each line. The model may be a vocabulary alone: a GGUF file without tensors, or a tokenizer.json. Special tokens that TEXT spells are recognised, as in the text that a chat template makes; --plain shows what a prompt or a message would become.

--json prints {"ids":[...],"tokens":[...]}.`,
		Examples: []cli.Example{
			{Line: `llmrun tokenize -- "Hello, world!"`, Purpose: "ids and tokens"},
			{Line: `llmrun tokenize -m tokenizer.json --json -- "Hello, world!"`, Purpose: "the same for a script, from a vocabulary alone"},
			{Line: `llmrun tokenize -m model.gguf < notes.md | wc -l`, Purpose: "count the tokens of a file"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			t := &tokenizeFlags{}
			t.model.addModel(f)
			f.Group("Tokens")
			f.Toggle(&t.special, "special", "add the begin and end tokens that the model asks for")
			f.Toggle(&t.plain, "plain", "special tokens that TEXT spells, such as <|im_end|>, stay plain text, as in a prompt for run")
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

// run splits the arguments, joined by spaces as echo joins them, or what is piped in.
func (t *tokenizeFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if s.InTerminal {
			return cli.Usagef("there is no text: give it after --, or pipe it in")
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
	ids := tokenizer.Encode(text, llmrun.EncodeOptions{Special: t.special, ParseSpecial: !t.plain})
	pieces := make([]string, len(ids))
	for i, id := range ids {
		pieces[i], _ = tokenizer.Piece(id)
	}
	if t.json {
		if ids == nil {
			ids = []int32{} // an empty list rather than null
		}
		return s.Out.WriteJSON(struct {
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		}{ids, pieces})
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
		Summary:  "show the text of token ids",
		About: `Prints the text that token ids stand for, exactly, with no line break added. The model may be a vocabulary alone: a GGUF file without tensors, or a tokenizer.json.

--json prints {"text":"..."}.`,
		Examples: []cli.Example{
			{Line: "llmrun detokenize --ids 4972,15,950,4", Purpose: "the text of four tokens"},
			{Line: `llmrun detokenize -m tokenizer.json --ids "4972 15 950 4" --json`, Purpose: "the same for a script, from a vocabulary alone"},
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
	return s.Out.ExactText(text, d.json)
}
