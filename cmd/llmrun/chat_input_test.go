package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
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
			signals := watchSignals(func() {})
			defer func() { require.NoError(t, signals.end(nil)) }()
			in := &pipeInput{lines: bufio.NewReader(strings.NewReader(test.typed)), signals: signals}
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
	}
}

// TestKeyReaderNoticesPastes checks that the reader knows at the end of each line whether more pasted text follows, however the
// bytes are cut, and that \r\n is one end of a line.
func TestKeyReaderNoticesPastes(t *testing.T) {
	const typed = "a\r" + cli.PasteBegin + "b\r\n\x1b" + cli.PasteBegin + "c\n\n" + cli.PasteEnd + "d\r\ne\x1b[2\x1b[200~\rf" + cli.PasteEnd + "\r"
	for size := 1; size < len(typed); size++ {
		for _, file := range []io.Reader{strings.NewReader(typed), iotest.OneByteReader(strings.NewReader(typed))} {
			keys := &keyReader{file: file}
			var lines []string
			var pasting []bool
			line, p := "", make([]byte, size)
			for {
				n, err := keys.Read(p)
				if err != nil {
					break
				}
				if line += string(p[:n]); p[n-1] == '\r' || p[n-1] == '\n' {
					lines, pasting, line = append(lines, line), append(pasting, keys.pasting), ""
				}
			}
			require.Equal(t, []string{"a\r", cli.PasteBegin + "b\r", "\x1b" + cli.PasteBegin + "c\n", "\n", cli.PasteEnd + "d\r", "e\x1b[2\x1b[200~\r", "f" + cli.PasteEnd + "\r"}, lines, size)
			require.Equal(t, []bool{false, true, true, true, false, true, false}, pasting, size)
		}
	}
}

// readAllMessages reads messages with a limit of ram/8 bytes up to an error, which it returns.
func readAllMessages(text io.Reader, ram int64) (messages []string, err error) {
	in := &pipeInput{lines: bufio.NewReader(text), ram: ram}
	for {
		message, err := readMessage(in)
		if err != nil {
			return messages, err
		}
		messages = append(messages, message)
	}
}

// TestReadMessageRefusesALongOne checks the limit of a line, of continued lines and of a block, and that
// such a message is counted to its end, without the next one and without being held.
func TestReadMessageRefusesALongOne(t *testing.T) {
	const ram = 8 * 20000
	line := strings.Repeat("x", 20000)
	messages, err := readAllMessages(strings.NewReader(line+"\n"+line+"\r\n"), ram)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{line, line}, messages)
	for text, end := range map[string]string{
		strings.Repeat("x", 1<<20):                     "\n",
		strings.Repeat("x", 1<<20) + `"""a`:            "\r\n",
		strings.Repeat("x\\\n", 1<<20):                 "y\n",
		`"""` + strings.Repeat("\n", 1<<20):            "\"\"\"\n",
		`"""` + strings.Repeat("x", 1<<20) + "\\\n\n":  "y\"\"\"\n",
		"a\\\n\"\"\"" + strings.Repeat("x\\\n", 1<<20): "\n",
	} {
		t.Run(string(addToEnds(nil, text)), func(t *testing.T) {
			in := &pipeInput{lines: bufio.NewReader(strings.NewReader("Hello\n" + text + end + "bye\n")), ram: ram}
			hello, err := readMessage(in)
			require.NoError(t, err)
			require.Equal(t, "Hello", hello)
			_, err = readMessage(in)
			require.ErrorIs(t, err, llmrun.ErrBudget)
			require.ErrorContains(t, err, "the prompt has more than 19.5 KiB, 1/8 of --ram; raise --ram or split the text")
			var long *longPrompt
			require.ErrorAs(t, err, &long)
			require.EqualValues(t, len(text+end), long.bytes)
			bye, err := readMessage(in)
			require.NoError(t, err)
			require.Equal(t, "bye", bye)
		})
	}
	for _, ram := range []int64{0, 4 << 30} { // the maximum of any text
		_, err = readAllMessages(strings.NewReader(strings.Repeat("x", cli.MaxInput+3)), ram)
		require.EqualError(t, err, "standard input has more than 64.0 MiB of text, the maximum; split it")
	}
}

// TestEndsOfALine adds a line to its ends, in one part and byte by byte.
func TestEndsOfALine(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "ab": "ab", "12345678": "12345678", "123456789": "12356789", "1234567890": "12367890",
		`"""` + strings.Repeat("x", 99) + "\\\n": `"""xxx\` + "\n", strings.Repeat("x", 99) + "\"\"\"\r\n": "xxx\"\"\"\r\n",
	} {
		require.Equal(t, want, string(addToEnds(nil, line)))
		var ends lineEnds
		for i := range len(line) {
			ends = addToEnds(ends, line[i:i+1])
		}
		require.Equal(t, want, string(ends))
	}
}

// TestLongMessageLeavesNoGarbage checks that what is not held of a message takes no memory at all.
func TestLongMessageLeavesNoGarbage(t *testing.T) {
	read := func(size int) float64 {
		text := strings.Repeat("x", size) + "\n"
		return testutil.AllocsPerRun(1, 0, func() {
			_, err := readMessage(&pipeInput{lines: bufio.NewReader(strings.NewReader(text)), ram: 8 * 20000})
			require.ErrorIs(t, err, llmrun.ErrBudget)
		})
	}
	require.InDelta(t, read(1<<16), read(1<<24), 5)
}

// TestExpectInputCountsAMessageAtATime checks what a plan hears of a file: the room for a short
// conversation, and the memory of the largest message of a long one or of a file with messages that are
// too long to be read.
func TestExpectInputCountsAMessageAtATime(t *testing.T) {
	expect := func(text string, overflow llmrun.Overflow, ram int64) (promptNeed, error) {
		c := &chatFlags{generation: generationFlags{overflow: overflow}}
		c.model.ram.bytes = ram
		err := c.expectInput(streamsWithInput(t, text))
		return c.model.prompt, err
	}
	needOf := func(text string, texts ...string) promptNeed {
		bytes := int64(len(text))
		return promptNeed{bytes: bytes, memory: llmrun.PromptMemory(bytes), texts: texts}
	}
	need, err := expect("one\ntwo\\\nthree\n", "", 0)
	require.NoError(t, err)
	require.Equal(t, needOf("one\ntwo\nthree\n", "one\ntwo\nthree\n"), need)

	large := strings.Repeat("a fox ", 40<<10)
	many := strings.Repeat("Hi there fox\n", 100000)
	for _, ram := range []int64{0, 45 << 20} {
		need, err = expect(many+large+"\n"+many, "", ram)
		require.NoError(t, err)
		require.Equal(t, needOf(large, large), need)
		need, err = expect(many+large+"\n"+many, llmrun.OverflowSlide, ram)
		require.NoError(t, err)
		require.Equal(t, needOf(large), need)
	}
	_, err = expect("Hello\n"+large[:200<<10]+"\n"+large+"\n"+many, "", 1<<20)
	var long *longPrompt
	require.ErrorAs(t, err, &long)
	bytes := int64(len(large) + 1)
	require.Equal(t, llmrun.PromptMemory(bytes)+textHeap(bytes), long.memory(), "the largest message")
}
