// Package jinja renders chat templates. A chat template is a Jinja program that ships
// with a model and converts a conversation to a prompt.
//
//	t, err := jinja.Parse(source)
//	prompt, err := t.Render(jinja.Input{
//		Messages:            []any{jinja.Message{Role: "user", Content: "Hi"}},
//		AddGenerationPrompt: true,
//		BOS:                 "<s>",
//	})
//
// The output equals, byte for byte, the output of Jinja2 as Hugging Face's transformers
// configures it: the immutable sandbox with trim_blocks, lstrip_blocks, loop controls,
// generation tags, tojson without HTML escapes, and the functions raise_exception and
// strftime_now. Values follow Python's semantics: strings are sequences of code points,
// dicts preserve their order, and undefined values print as the empty string.
//
// # Supported subset
//
// The package implements all expressions of Jinja and the statements if, for (with
// else, if and recursive), set, macro, call, filter, with, block, print, raw, break,
// continue and generation. It implements the filters and tests of Jinja except those
// that generate HTML or random values. A statement that reads another file (include,
// import, extends) and an unknown tag, filter or test result in ErrUnsupported.
// Integers have 64 bits; a larger result is an error.
//
// # Untrusted templates
//
// Templates are downloaded with models, so they are untrusted. A template can access
// only its input and the current time. It cannot access files, environment variables,
// names that begin with two underscores, or methods that modify a value. The package
// limits the steps, nesting, output and allocation of parsing and rendering (see
// limits.go). A template that exceeds a limit results in ErrLimit within a second.
//
// # Reading the code
//
// Begin with [Parse] and [Template.Render] in template.go. lexer*.go split the source
// into tokens and apply whitespace control. parse_*.go build the syntax tree of ast.go.
// eval_*.go evaluate the tree. values.go defines the types of values. filters*.go,
// tests.go, methods*.go and globals.go implement Jinja's library.
package jinja
