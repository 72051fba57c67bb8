package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// ReadAll returns the contents of a file, or of standard input for "-". Errors name flag.
func ReadAll(s *Streams, flag, name string) (string, error) {
	if name == "-" {
		text, err := io.ReadAll(s.In)
		if err != nil {
			return "", fmt.Errorf("%s: reading standard input: %w", flag, err)
		}
		return string(text), nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return string(text), nil
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
