package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func renderCommand() *cli.Command {
	return &cli.Command{
		Name:     "render",
		Synopsis: "[-m MODEL | --template FILE] --messages FILE.json [flags]",
		Summary:  "print the prompt that a chat template produces",
		About: `Applies a chat template to a conversation and prints the resulting prompt exactly, with no line break added. The messages are a JSON array of {"role":"user","content":"..."}, or the object of a chat request, with "messages" and optionally "tools", "documents" and "chat_template_kwargs".

--json prints {"text":"..."}.`,
		Examples: []cli.Example{
			{Line: "llmrun render --messages chat.json", Purpose: "with the template of " + defaultModel},
			{Line: `llmrun render --template chat.jinja --bos "<s>" --eos "</s>" --messages chat.json`, Purpose: "with a template of your own"},
			{Line: `echo '[{"role":"user","content":"Hi"}]' | llmrun render -m model.gguf --messages -`, Purpose: "messages from standard input"},
			{Line: "llmrun render -m model.gguf --messages chat.json --var enable_thinking=false", Purpose: "with a variable of the template"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			r := &renderFlags{}
			r.add(f)
			return r.run
		},
	}
}

// renderFlags are the flags of render.
type renderFlags struct {
	model              modelFlags
	template           string  // a file in place of the model's template
	bos, eos           *string // with template; a model has its own
	messages           string
	noGenerationPrompt bool
	json               bool
	now                time.Time      // zero = the current time
	variables          map[string]any // in addition to the standard ones
}

func (r *renderFlags) add(f *cli.FlagSet) {
	r.model.addModel(f)
	f.Group("Template")
	f.Text(&r.template, "template", "FILE", "a Jinja chat template in place of the model's")
	f.OptionalText(&r.bos, "bos", "TEXT", "with --template: the begin token as text")
	f.OptionalText(&r.eos, "eos", "TEXT", "with --template: the end token as text")
	f.Value("now", "TIME", "the time for templates that print a date, such as 2026-01-31T12:00:00Z; default: the current time", r.setNow)
	f.Value("var", "NAME=VALUE", "set a variable of the template; VALUE is JSON, or text if it is not valid JSON; may be given several times", r.setVariable)
	f.Group("Conversation")
	f.Text(&r.messages, "messages", "FILE", "the messages as JSON; - for standard input")
	f.Toggle(&r.noGenerationPrompt, "no-generation-prompt", "do not start the assistant's turn at the end")
	f.Group("Output")
	f.Toggle(&r.json, "json", "print one JSON object")
}

func (r *renderFlags) setNow(s string) error {
	now, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("must be a time such as 2026-01-31T12:00:00Z, not %q", s)
	}
	r.now = now
	return nil
}

// setVariable parses NAME=VALUE. A VALUE that is not JSON is text, so that plain words need no
// quotes.
func (r *renderFlags) setVariable(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("must be NAME=VALUE, not %q", s)
	}
	var value any = text
	if json.Valid([]byte(text)) {
		value = json.RawMessage(text)
	}
	if r.variables == nil {
		r.variables = make(map[string]any)
	}
	r.variables[name] = value
	return nil
}

// check refuses flags that are missing or contradict each other.
func (r *renderFlags) check() error {
	switch {
	case r.messages == "":
		return cli.Usagef("--messages is missing: name a JSON file, or - for standard input")
	case r.template != "" && r.model.path != "":
		return cli.Usagef("-m and --template both name a template: give one of them")
	case r.template == "" && (r.bos != nil || r.eos != nil):
		return cli.Usagef("--bos and --eos need --template: a model has its own")
	}
	return nil
}

// run prints the prompt exactly, so that it can be piped into another program.
func (r *renderFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	messages, err := cli.ReadAll(s, "--messages", r.messages)
	if err != nil {
		return err
	}
	text, err := r.render([]byte(messages))
	if err != nil {
		return err
	}
	return s.Out.ExactText(text, r.json)
}

// render applies the template of the file or the model.
func (r *renderFlags) render(messages []byte) (string, error) {
	options := llmrun.TemplateOptions{
		Messages:           messages,
		NoGenerationPrompt: r.noGenerationPrompt,
		Now:                r.now,
		Extra:              r.variables,
	}
	if r.template == "" {
		path, modelOptions, err := r.model.source()
		if err != nil {
			return "", err
		}
		return llmrun.RenderModel(path, modelOptions, options)
	}
	source, err := os.ReadFile(r.template)
	if err != nil {
		return "", fmt.Errorf("--template: %w", err)
	}
	override(&options.BOS, r.bos)
	override(&options.EOS, r.eos)
	text, err := llmrun.RenderTemplate(string(source), options)
	if err != nil {
		return "", fmt.Errorf("--template %s: %w", r.template, err)
	}
	return text, nil
}
