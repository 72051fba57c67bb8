package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// MaxInput is the maximum size of a text in bytes. No context holds as many tokens, and an
// endless file such as /dev/zero must not use up the memory of the machine.
const MaxInput = 64 << 20

// ErrTooLong reports a text of more bytes than the limit of ReadUpTo.
var ErrTooLong = errors.New("the text is too long")

// ReadAll returns the contents of a file, or of standard input for "-". It refuses more than
// MaxInput bytes. Errors name flag.
func ReadAll(s *Streams, flag, name string) (string, error) {
	text, err := ReadUpTo(s, flag, name, MaxInput, nil)
	if errors.Is(err, ErrTooLong) {
		if name == "-" {
			name = "standard input"
		}
		return "", fmt.Errorf("%s: %w", flag, TooMuch(name))
	}
	return text, err
}

// TooMuch returns the error for an input of more than MaxInput bytes.
func TooMuch(name string) error {
	return fmt.Errorf("%s has more than %s of text, the maximum; split it", name, FormatBytes(MaxInput))
}

// ReadUpTo is ReadAll with a limit of its own, at most MaxInput. It returns ErrTooLong for a
// longer text; that of a regular file it does not read.
//
// It calls over, unless that is nil, with a reader of a longer text, all of it.
func ReadUpTo(s *Streams, flag, name string, limit int64, over func(text io.Reader) error) (string, error) {
	limit = min(limit, MaxInput)
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		defer file.Close()
		in = file
	}
	var text strings.Builder // a bytes.Buffer would hold a second copy
	if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
		if info.Size() > limit {
			return "", tooLong(in, over)
		}
		text.Grow(int(info.Size())) // a text that grows takes twice its size
	}
	_, err := io.Copy(&text, io.LimitReader(in, limit+1))
	switch {
	case err != nil && in == s.In:
		return "", fmt.Errorf("%s: reading standard input: %w", flag, err)
	case err != nil:
		return "", fmt.Errorf("%s: %w", flag, err)
	case int64(text.Len()) > limit:
		return "", tooLong(io.MultiReader(strings.NewReader(text.String()), in), over)
	}
	return text.String(), nil
}

// tooLong returns ErrTooLong, or the error of over.
func tooLong(text io.Reader, over func(text io.Reader) error) error {
	if over != nil {
		if err := over(text); err != nil {
			return err
		}
	}
	return ErrTooLong
}

// CheckExists returns an error that names flag if no file or directory has that name.
func CheckExists(flag, name string) error {
	if _, err := os.Stat(name); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// ReadText is ReadAll, but refuses an empty text.
func ReadText(s *Streams, flag, name string) (string, error) {
	text, err := ReadAll(s, flag, name)
	if err == nil && strings.TrimSpace(text) == "" {
		err = Usagef("%s: %s has no text", flag, name)
	}
	return text, err
}
