package exec

import "errors"

// Errors of a forward pass.
var (
	// ErrContextFull means that a sequence has reached its token limit.
	ErrContextFull = errors.New("context is full")
	// ErrToken means that a token id is not in the vocabulary.
	ErrToken = errors.New("token id outside the vocabulary")
)
