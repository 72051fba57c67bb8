package token

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/store"
)

// ErrID marks a token id that the vocabulary does not have.
var ErrID = errors.New("no such token")

// Tokenizer descriptions are refused with *store.FormatError like every other
// part of a model. Field is a JSON path or a GGUF key.

func malformed(field, format string, args ...any) error {
	return formatError(store.ErrFormat, field, format, args)
}

func unsupported(field, format string, args ...any) error {
	return formatError(store.ErrUnsupported, field, "not supported: "+format, args)
}

func formatError(kind error, field, format string, args []any) error {
	return &store.FormatError{
		Path: "tokenizer", Off: store.NoOffset, Field: field,
		Reason: fmt.Sprintf(format, args...), Kind: kind,
	}
}
