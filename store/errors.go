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

// ErrChanged reports that a file was changed while it was in use. As the kind of a FormatError it
// matches ErrFormat too: bytes of two versions make no file.
var ErrChanged = errors.New("the file was changed while it was read; try again when it is complete")

// Changed returns the error for a file that was changed after its header was read, which a read at
// an offset found.
func Changed(path string, off int64, field string) error {
	return &FormatError{
		Path: path, Off: off, Field: field, Reason: "the file was changed while it was in use",
		Hint: "open the model again when the file is complete", Kind: ErrChanged,
	}
}

// NoOffset is the offset of a FormatError that concerns no particular byte.
const NoOffset = -1

// FormatError reports what is wrong with a file, where, and what to do about it.
type FormatError struct {
	Path   string
	Off    int64  // byte offset in the file, or NoOffset
	Field  string // the faulty header field, metadata key or tensor
	Reason string
	Hint   string // what the user can do; may be empty
	Kind   error  // ErrFormat, ErrTruncated, ErrChanged or ErrUnsupported
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

// Is makes ErrTruncated and ErrChanged match ErrFormat.
func (e *FormatError) Is(target error) bool {
	return target == ErrFormat && (e.Kind == ErrTruncated || e.Kind == ErrChanged)
}
