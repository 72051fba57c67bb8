// Package jinja renders chat templates: the Jinja programs that models ship to
// turn a conversation into a prompt.
//
//	t, err := jinja.Parse(source)
//	prompt, err := t.Render(jinja.Input{
//		Messages:            []any{jinja.Message{Role: "user", Content: "Hi"}},
//		AddGenerationPrompt: true,
//		BOS:                 "<s>",
//	})
//
// The output is byte for byte what Jinja2 gives in the setting of Hugging Face's
// transformers: the immutable sandbox with trim_blocks, lstrip_blocks, loop
// controls, generation tags, tojson without HTML escapes, and the functions
// raise_exception and strftime_now. Values behave as Python's: characters are code
// points, dicts keep their order, and what is undefined prints as nothing.
//
// # What is supported
//
// All of Jinja's expressions, and the statements if, for (with else, if and
// recursive), set, macro, call, filter, with, block, raw, break, continue and
// generation. The filters and tests are those of Jinja that neither make HTML nor
// are random. Everything that would read another file (include, import, extends)
// is refused with ErrUnsupported and its name, and so is any unknown tag, filter or
// test. Integers have 64 bits; beyond them is an error, not a wrong number.
//
// # Hostile templates
//
// Templates are downloaded with models and are not trusted. They see nothing but
// their input and the time: no files, no environment, no names beginning with two
// underscores, and no method that changes a value. Parsing and rendering are
// bounded in steps, nesting, output and allocated bytes (limits.go); exceeding a
// bound ends in ErrLimit within a second.
//
// # Reading the code
//
// lexer.go cuts the source into tokens and applies whitespace control; parse_*.go
// build the tree of ast.go; eval_*.go walk it. values.go lists the kinds of values,
// and filters*.go, tests.go and methods*.go hold the library.
package jinja
