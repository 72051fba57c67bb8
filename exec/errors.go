package exec

import "errors"

// Errors of running a model.
var (
	// ErrContextFull says that a sequence has reached the longest length it
	// may have.
	ErrContextFull = errors.New("context is full")
	// ErrToken says that a token id is not in the vocabulary.
	ErrToken = errors.New("token id outside the vocabulary")
)
