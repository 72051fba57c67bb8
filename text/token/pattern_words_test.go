package token

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWordsOfPatternsJoin splits random texts by each pre-tokenizer of GGUF files: the words are the text.
func TestWordsOfPatternsJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("aZ1 \n\r\t'sé中٣!。_́ \u00a0\u2028Ⅷǅ😀ʼ")
	for name, p := range prePatterns {
		c, err := p.splitters()
		require.NoError(t, err, name)
		for range 200 {
			var text, words strings.Builder
			for range 1 + r.IntN(12) {
				text.WriteRune(alphabet[r.IntN(len(alphabet))])
			}
			m := newMeter(text.Len(), maxTextGrowth, EncodeOptions{})
			c.split(m, text.String(), true, func(word string, _ bool) { words.WriteString(word) })
			require.NoError(t, m.err, name)
			require.Equal(t, text.String(), words.String(), name)
		}
	}
}
