package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxInput is the maximum size of a text in bytes. No context holds as many tokens, and an
// endless file such as /dev/zero must not use up the memory of the machine.
const maxInput = 64 << 20

// ReadAll returns the contents of a file, or of standard input for "-". It refuses more than
// maxInput bytes. Errors name flag.
func ReadAll(s *Streams, flag, name string) (string, error) {
	in := s.In
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		defer file.Close()
		in = file
	}
	var text bytes.Buffer
	if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
		text.Grow(int(min(info.Size(), maxInput)) + bytes.MinRead) // a text that grows takes twice its size
	}
	_, err := text.ReadFrom(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil && in == s.In:
		return "", fmt.Errorf("%s: reading standard input: %w", flag, err)
	case err != nil:
		return "", fmt.Errorf("%s: %w", flag, err)
	case text.Len() > maxInput:
		return "", fmt.Errorf("%s: %s has more than %s of text, the maximum; split it", flag, name, FormatBytes(maxInput))
	}
	return text.String(), nil
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
