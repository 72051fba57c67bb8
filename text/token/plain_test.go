package token_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/token"
)

// TestPlainSpans encodes conversations in whose spans a user spells special tokens: they are text there and special tokens
// elsewhere, and a span around other words changes nothing, as a space before them would.
func TestPlainSpans(t *testing.T) {
	for family, specials := range map[string][]string{"spm": {"<s>", "</s>"}, "gemma": {"<s>", "</s>"}, "llama3": {"<|im_start|>", "<|im_end|>"}} {
		tok := fixture(t, family)
		r := rand.New(rand.NewPCG(1, 2))
		words := []string{"say", " now", " ", "\n", "é", "[INST]", "a"}
		for range 200 {
			var text strings.Builder
			var o token.EncodeOptions
			o.AllowSpecial = true
			want := 0 // special tokens
			spelled := false
			for range 1 + r.IntN(6) {
				from := text.Len()
				inSpan := r.IntN(2) == 0
				for range r.IntN(4) {
					if r.IntN(3) == 0 {
						text.WriteString(specials[r.IntN(2)])
						if spelled = spelled || inSpan; !inSpan {
							want++
						}
						continue
					}
					text.WriteString(words[r.IntN(len(words))])
				}
				if inSpan && text.Len() > from {
					o.Plain = append(o.Plain, token.Span{Begin: from, End: text.Len()})
				}
			}
			ids, err := tok.Encode(text.String(), o)
			require.NoError(t, err)
			special := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !tok.IsSpecial(id) })
			require.Len(t, special, want, "%s: %q with %v", family, text.String(), o.Plain)
			if spelled {
				continue
			}
			without, err := tok.Encode(text.String(), token.EncodeOptions{AllowSpecial: true})
			require.NoError(t, err)
			require.Equal(t, without, ids, "%s: %q with %v", family, text.String(), o.Plain)
		}
	}
}

// TestPlainSpansOfNormalizedTokens does so where special tokens match behind the normalizer.
func TestPlainSpansOfNormalizedTokens(t *testing.T) {
	tok := fromText(t, bpeJSON(letterVocab("ab"), "", `,"normalizer":{"type":"Lowercase"},"added_tokens":[{"id":90,"content":"BB","special":true,"normalized":true}]`), token.Config{})
	text := "bbaBBabb"
	require.Equal(t, "BB|a|BB|a|BB", spelled(tok, text, token.EncodeOptions{AllowSpecial: true}))
	plain := token.EncodeOptions{AllowSpecial: true, Plain: []token.Span{{Begin: 2, End: 6}}}
	require.Equal(t, "BB|a|b|b|a|BB", spelled(tok, text, plain))
}
