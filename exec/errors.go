package exec

import "errors"

// Errors of opening a model.
var (
	// ErrModel says that a file's description of its network contradicts
	// itself, or that a tensor is missing or has the wrong shape.
	ErrModel = errors.New("malformed model")
	// ErrUnsupported says that the file asks for something known but not
	// offered; the message names it.
	ErrUnsupported = errors.New("not supported")
)

// Errors of running a model.
var (
	// ErrContextFull says that a sequence has reached the longest length it
	// may have.
	ErrContextFull = errors.New("context is full")
	// ErrToken says that a token id is not in the vocabulary.
	ErrToken = errors.New("token id outside the vocabulary")
)
