package jinja

import (
	"errors"
	"fmt"
)

// Every error of this package wraps exactly one of these sentinels. They let a caller
// distinguish a defective template from a template that rejects its input.
var (
	// ErrSyntax reports a source that is not a well-formed template.
	ErrSyntax = errors.New("template syntax error")
	// ErrUnsupported reports a construct outside the supported subset.
	ErrUnsupported = errors.New("unsupported template construct")
	// ErrLimit reports that parsing or rendering exceeded a limit on time or memory.
	ErrLimit = errors.New("template limit exceeded")
	// ErrRaised reports that the template called raise_exception.
	ErrRaised = errors.New("template raised an exception")
	// ErrRuntime reports a failed operation during rendering, such as the use of an
	// undefined value.
	ErrRuntime = errors.New("template runtime error")
	// ErrInput reports malformed messages or variables.
	ErrInput = errors.New("invalid template input")
)

// Error describes the location and the reason of a failure.
type Error struct {
	Line      int    // line in the template source from 1, or 0 if no line applies
	Construct string // the tag, filter, test or input field, or ""
	Reason    string // the defect, or the message of raise_exception
	Kind      error  // one of the sentinels above
}

// Error returns the location and the reason. For raise_exception it returns only the
// template's message, because that message addresses the user.
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

// runtimeErrorf returns an ErrRuntime without a line. eval adds the line.
func runtimeErrorf(format string, args ...any) error {
	return &Error{Kind: ErrRuntime, Reason: fmt.Sprintf(format, args...)}
}

// limitErrorf returns an ErrLimit without a line.
func limitErrorf(format string, args ...any) error {
	return &Error{Kind: ErrLimit, Reason: fmt.Sprintf(format, args...)}
}

// inputErrorf returns an ErrInput for a field such as messages[2].role.
func inputErrorf(field, format string, args ...any) error {
	return &Error{Kind: ErrInput, Construct: field, Reason: fmt.Sprintf(format, args...)}
}

// locate sets the line of err to the line of the current node. The innermost node sets
// the line first, so locate preserves a line that is already set.
func locate(err error, line int) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 && !errors.Is(e.Kind, ErrInput) {
		e.Line = line
	}
	return err
}
