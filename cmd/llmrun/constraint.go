package main

import (
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// constraintFlags hold an answer to a language.
type constraintFlags struct {
	schema, regexp, grammar string
}

func (c *constraintFlags) add(f *cli.FlagSet) {
	f.Text(&c.schema, "schema", "FILE", `the answer is JSON that is valid in the JSON Schema in FILE; {"type": "object"} is any object`)
	f.Text(&c.regexp, "regex", "RE", "the whole answer matches the regular expression RE, in the syntax of JavaScript")
	f.Text(&c.grammar, "grammar", "FILE", "the answer is in the language of the grammar in FILE, in the notation of llama.cpp (GBNF)")
}

// check refuses flags that contradict each other.
func (c *constraintFlags) check(g *generationFlags) error {
	given := 0
	for _, flag := range []string{c.schema, c.regexp, c.grammar} {
		if flag != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return cli.Usagef("--schema, --regex and --grammar exclude each other")
	case given > 0 && g.ignoreEOS:
		return cli.Usagef("--ignore-eos has no meaning with --schema, --regex and --grammar: the answer ends where the language does")
	}
	return nil
}

// read reads the files, and checks them before a model is loaded.
func (c *constraintFlags) read(s *cli.Streams, ram *ramFlag) (o llmrun.GenerateOptions, err error) {
	o.Regexp = c.regexp
	name := "--regex"
	if c.schema != "" {
		name = c.schema
		o.Schema, err = readPart(s, "--schema", name, ram, promptPart)
	}
	if c.grammar != "" {
		name = c.grammar
		o.Grammar, err = readPart(s, "--grammar", name, ram, promptPart)
	}
	if err != nil {
		return o, err
	}
	if c.schema != "" && o.Schema == "" || c.grammar != "" && o.Grammar == "" {
		return o, fmt.Errorf("%s is empty", name)
	}
	if err = o.CheckConstraint(); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return o, err
}
