package store

import (
	"errors"
	"fmt"
	"strings"
)

// Why a file was refused. They are found with errors.Is.
var (
	// ErrFormat: the file contradicts its format or itself.
	ErrFormat = errors.New("malformed file")
	// ErrTruncated: the file ends before what it promises. It is an ErrFormat
	// too.
	ErrTruncated = errors.New("file ends too early")
	// ErrUnsupported: the file may well be sound, but uses something that is
	// not implemented; the message says what.
	ErrUnsupported = errors.New("not supported")
)

// NoOffset marks a FormatError that concerns no particular byte.
const NoOffset = -1

// FormatError says what is wrong with a file, where, and what to do about it.
type FormatError struct {
	Path   string
	Off    int64  // byte offset in the file, or NoOffset
	Field  string // what is wrong: a header field, a metadata key, a tensor
	Reason string
	Hint   string // what to do; may be empty
	Kind   error  // ErrFormat, ErrTruncated or ErrUnsupported
}

// Error gives all parts on one line.
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

// Unwrap returns the kind.
func (e *FormatError) Unwrap() error { return e.Kind }

// Is makes a truncated file count as malformed.
func (e *FormatError) Is(target error) bool {
	return target == ErrFormat && e.Kind == ErrTruncated
}
