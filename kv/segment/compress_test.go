package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// plain returns a session as version 2 wrote it.
func plain(m *Manifest) []byte {
	return endManifest(append(manifestHeader(plainVersion), m.content()...))
}

// conversation returns a session with a text of n words.
func conversation(n int) *Manifest {
	random := rand.New(rand.NewPCG(uint64(n), 3))
	var text strings.Builder
	m := &Manifest{Model: "m", PageTokens: 4, Tokens: []int32{}, Segments: []Ref{}}
	for range n {
		word := int32(random.IntN(500))
		m.Tokens = append(m.Tokens, word)
		fmt.Fprintf(&text, "word%d ", word)
	}
	m.Messages = []Message{{"user", text.String()}}
	m.Created, m.Saved = m.Created.UTC(), m.Saved.UTC()
	return m
}

// TestSessionsAreCompressed compares sizes, and reads sessions back: a text, one that does not
// shrink, and one that shrinks so much that it is stored as it is.
func TestSessionsAreCompressed(t *testing.T) {
	text := conversation(3000)
	require.Less(t, 3*len(text.encode()), 2*len(plain(text)))
	require.NotContains(t, string(text.encode()), text.Messages[0].Content[:200])

	noise := conversation(0)
	content := make([]byte, 5000)
	random := testutil.Random(t)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	noise.Messages[0].Content = string(content)
	require.InDelta(t, len(plain(noise)), len(noise.encode()), 100)

	repeats := conversation(0)
	repeats.Messages[0].Content = strings.Repeat("again ", 10000)
	require.Equal(t, len(plain(repeats))+4, len(repeats.encode()))

	for _, m := range []*Manifest{text, noise, repeats, conversation(0), conversation(1)} {
		for _, data := range [][]byte{m.encode(), plain(m)} {
			got, err := decodeManifest("x", data)
			require.NoError(t, err)
			require.Equal(t, m.Messages, got.Messages)
			require.Equal(t, m.Tokens, got.Tokens)
		}
	}
}

// TestMalformedCompression changes the length of the content and the LZ4 block behind a matching
// checksum.
func TestMalformedCompression(t *testing.T) {
	good := conversation(300).encode()
	for _, c := range []struct {
		name, want string
		change     func(b []byte) []byte
	}{
		{"4 GiB of content", "do not come from", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[manifestHead:], 1<<32-1); return b }},
		{"more than the block can hold", "do not come from", func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[manifestHead:], uint32(maxExpansion*len(b)))
			return b
		}},
		{"a byte more", "the LZ4 block gives", func(b []byte) []byte { b[manifestHead]++; return b }},
		{"a byte less", "the LZ4 block gives", func(b []byte) []byte { b[manifestHead]--; return b }},
		{"an offset before the content", "the LZ4 block gives", func(b []byte) []byte {
			copy(b[manifestHead+4:], []byte{0x1f, 'x', 0xff, 0xff, 0})
			return b
		}},
		{"no content", "ends within it", func(b []byte) []byte { return append(b[:manifestHead+2], b[len(b)-checksumBytes:]...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeManifest("x.session", resumManifest(c.change(bytes.Clone(good))))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "x.session at offset")
			require.True(t, isFormat(err))
		})
	}
}
