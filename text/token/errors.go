package token

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/store"
)

// ErrID reports a token id that the vocabulary does not have.
var ErrID = errors.New("no such token")

// An invalid tokenizer file results in a *store.FormatError, as for every other part of
// a model. Its Field is a JSON path or a GGUF key.

// malformed returns an error for a field that contradicts the format.
func malformed(field, format string, args ...any) error {
	return formatError(store.ErrFormat, field, format, args)
}

// unsupported returns an error for a valid construct that the package does not
// implement.
func unsupported(field, format string, args ...any) error {
	return formatError(store.ErrUnsupported, field, "not supported: "+format, args)
}

func formatError(kind error, field, format string, args []any) error {
	return &store.FormatError{
		Path: "tokenizer", Off: store.NoOffset, Field: field,
		Reason: fmt.Sprintf(format, args...), Kind: kind,
	}
}
