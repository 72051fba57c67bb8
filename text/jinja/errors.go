package jinja

import (
	"errors"
	"fmt"
)

// Every error of this package wraps exactly one of these, so that callers can
// tell a template that is wrong from one that refuses its input.
var (
	// ErrSyntax: the source is not a well-formed template.
	ErrSyntax = errors.New("template syntax error")
	// ErrUnsupported: the source uses a construct outside the supported subset.
	ErrUnsupported = errors.New("unsupported template construct")
	// ErrLimit: parsing or rendering exceeded a bound on time or memory.
	ErrLimit = errors.New("template limit exceeded")
	// ErrRaised: the template called raise_exception.
	ErrRaised = errors.New("template raised an exception")
	// ErrRuntime: an operation failed while rendering (an undefined value used, a wrong type).
	ErrRuntime = errors.New("template runtime error")
	// ErrInput: the messages or values handed to the template are malformed.
	ErrInput = errors.New("invalid template input")
)

// Error says where and why a template failed.
type Error struct {
	Line      int    // 1-based line of the template source, 0 where no line applies
	Construct string // the tag, filter, test or field concerned; may be empty
	Reason    string // what is wrong; for raise_exception the template's own words
	Kind      error  // one of the package's sentinels
}

// Error returns the template's own message for raise_exception, since that text
// is addressed to the user, and a located description otherwise.
func (e *Error) Error() string {
	if errors.Is(e.Kind, ErrRaised) {
		return e.Reason
	}
	text := e.Reason
	if e.Construct != "" {
		text = e.Construct + ": " + text
	}
	if e.Line > 0 {
		return fmt.Sprintf("%v: line %d: %s", e.Kind, e.Line, text)
	}
	return fmt.Sprintf("%v: %s", e.Kind, text)
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Kind }

// runtimeErrorf describes an operation that failed; eval adds the line.
func runtimeErrorf(format string, args ...any) error {
	return &Error{Kind: ErrRuntime, Reason: fmt.Sprintf(format, args...)}
}

// limitErrorf describes a bound that was exceeded.
func limitErrorf(format string, args ...any) error {
	return &Error{Kind: ErrLimit, Reason: fmt.Sprintf(format, args...)}
}

// inputErrorf describes a defect of the input at a field such as messages[2].role.
func inputErrorf(field, format string, args ...any) error {
	return &Error{Kind: ErrInput, Construct: field, Reason: fmt.Sprintf(format, args...)}
}

// locate gives err the line of the node that was being evaluated. The innermost
// node reports first, so a line already present stays.
func locate(err error, line int) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 && !errors.Is(e.Kind, ErrInput) {
		e.Line = line
	}
	return err
}
