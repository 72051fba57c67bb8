package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// pastedLines is a terminal on which a text is pasted: more lines follow each but the last.
type pastedLines []string

func (p *pastedLines) begin() (func(), error) { return func() {}, nil }
func (p *pastedLines) interactive() bool      { return true }
func (p *pastedLines) refused() error         { return nil }

func (p *pastedLines) readLine(string) (line string, pasted bool, err error) {
	if len(*p) == 0 {
		return "", false, io.EOF
	}
	line, *p = (*p)[0], (*p)[1:]
	return line, len(*p) > 0, nil
}

// TestPastedQuotesAreText pastes texts with lines that begin or end with three quotes, also into a block.
func TestPastedQuotesAreText(t *testing.T) {
	for want, lines := range map[string]pastedLines{
		"\"\"\"Doc.\"\"\"\ndef f():\n    pass": {`"""Doc."""`, "def f():", "    pass"},
		"\"\"\"\na\n\"\"\"\nb":                 {`"""`, "a", `"""`, "b"},
	} {
		got, err := readMessage(&lines)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
