package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestReadMessageFromAPipe checks how lines, continued lines and blocks become messages.
func TestReadMessageFromAPipe(t *testing.T) {
	tests := []struct {
		name, typed string
		want        []string
	}{
		{"nothing", "", nil},
		{"lines", "one\ntwo\n", []string{"one", "two"}},
		{"last line not ended", "one\ntwo", []string{"one", "two"}},
		{"Windows line ends", "one\r\ntwo\r\n", []string{"one", "two"}},
		{"empty line", "one\n\ntwo\n", []string{"one", "", "two"}},
		{"continued", "one\\\ntwo\\\nthree\nfour\n", []string{"one\ntwo\nthree", "four"}},
		{"continued to the end of the input", "one\\\n", []string{"one"}},
		{"block", "\"\"\"\none\\\n\ntwo\n\"\"\"\nthree\n", []string{"one\\\n\ntwo", "three"}},
		{"block with text beside the quotes", "\"\"\"one\ntwo\"\"\"\n", []string{"one\ntwo"}},
		{"block in one line", "\"\"\"one\"\"\"\n", []string{"one"}},
		{"block to the end of the input", "\"\"\"\none\n", []string{"one"}},
		{"quotes inside a line", "say \"\"\"\n", []string{"say \"\"\""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := &pipeInput{lines: bufio.NewReader(strings.NewReader(test.typed))}
			var got []string
			for {
				message, err := readMessage(in)
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
				got = append(got, message)
			}
			require.Equal(t, test.want, got)
		})
	}
}

// TestKeyReaderReturnsValidUTF8 checks that the characters do not depend on the sizes of reads, and
// that each invalid byte becomes one ?.
func TestKeyReaderReturnsValidUTF8(t *testing.T) {
	const typed = "h\xc3\xa9llo \xf0\x9f\x98\x80 \xe9t\xff\xe2\x82 \xef\xbf\xbd\x03end"
	const want = "héllo 😀 ?t??? ?\x03end"
	for size := 1; size < len(typed); size++ {
		keys := &keyReader{file: iotest.OneByteReader(strings.NewReader(typed))}
		if size > 4 {
			keys.file = strings.NewReader(typed)
		}
		var got []byte
		p := make([]byte, size)
		for {
			n, err := keys.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				break
			}
		}
		require.Equal(t, want, string(got), "%d bytes at a time", size)
		require.True(t, keys.interrupted)
	}
}
