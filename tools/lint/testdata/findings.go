// Package findings has one mistake for each kind of check, so that scripts/lint.sh can
// see the linter find them.
package findings

import (
	"errors"
	"io"
	"log"
	"os"
	"strings"
)

// Unchecked drops an error (errcheck). It also drops the errors that are excluded.
func Unchecked(f *os.File) {
	os.Remove(f.Name())
	f.Close()
	io.WriteString(os.Stdout, "done")
}

// Compares compares with an error that may be wrapped (errorlint). Read never wraps
// io.EOF.
func Compares(f *os.File, err error) bool {
	_, readErr := f.Read(nil)
	return readErr == io.EOF || err == io.EOF
}

// Ineffectual assigns a value that nobody reads (ineffassign).
func Ineffectual(n int) int {
	m := n
	m = 2
	return m
}

// Succeeds returns nil though there is an error (nilerr).
func Succeeds(name string) error {
	if _, err := os.Stat(name); err != nil {
		return nil
	}
	return errors.ErrUnsupported
}

// Converts changes nothing (unconvert).
func Converts(s string) string {
	return string(s)
}

// Prefix has a condition that TrimPrefix checks itself (simple).
func Prefix(s string) string {
	if strings.HasPrefix(s, "a") {
		s = strings.TrimPrefix(s, "a")
	}
	return s
}

// Bitwise is always zero (staticcheck).
func Bitwise(n int) int {
	return n & 0
}

// Speaks has an error message that begins with a capital letter (stylecheck).
func Speaks() error {
	return errors.New("Sorry")
}

func unused() {}

// Ignores silences one finding and, below, has a directive that silences nothing.
func Ignores(s string) string {
	//lint:ignore unconvert The directive works.
	s = string(s)
	//lint:ignore unconvert Nothing is converted.
	return s
}

// Prints has an argument that does not suit the verb (vet). That log.Printf is like
// fmt.Printf is a fact of another package.
func Prints(n int) {
	log.Printf("%s", n)
}
