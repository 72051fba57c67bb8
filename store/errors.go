package store

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of a FormatError. Test for them with errors.Is.
var (
	// ErrFormat: the file contradicts its format or itself.
	ErrFormat = errors.New("malformed file")
	// ErrTruncated: the file ends before the data that its header describes. It matches
	// ErrFormat too.
	ErrTruncated = errors.New("file ends too early")
	// ErrUnsupported: the file may be valid, but it uses a feature that this program does
	// not implement. The message names the feature.
	ErrUnsupported = errors.New("not supported")
)

// ErrChanged reports that a file was changed while it was in use.
var ErrChanged = errors.New("the file was changed while it was read; try again when it is complete")

// NoOffset is the offset of a FormatError that concerns no particular byte.
const NoOffset = -1

// FormatError reports what is wrong with a file, where, and what to do about it.
type FormatError struct {
	Path   string
	Off    int64  // byte offset in the file, or NoOffset
	Field  string // the faulty header field, metadata key or tensor
	Reason string
	Hint   string // what the user can do; may be empty
	Kind   error  // ErrFormat, ErrTruncated or ErrUnsupported
}

// Error formats all parts on one line.
func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Off != NoOffset {
		fmt.Fprintf(&b, " at offset %d", e.Off)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Reason)
	if e.Hint != "" {
		b.WriteString(" (")
		b.WriteString(e.Hint)
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap returns Kind.
func (e *FormatError) Unwrap() error { return e.Kind }

// Is makes ErrTruncated match ErrFormat.
func (e *FormatError) Is(target error) bool {
	return target == ErrFormat && e.Kind == ErrTruncated
}
