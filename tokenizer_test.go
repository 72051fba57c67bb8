package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestTokenBytesJoinToText checks that the bytes of tokens are those of the text, also where a token ends within
// a character.
func TestTokenBytesJoinToText(t *testing.T) {
	tokenizer := demo(t).Tokenizer()
	const text = "Once, naïve 🦊 foxes"
	ids := testutil.Must(tokenizer.Encode(text, llmrun.EncodeOptions{}))
	var joined []byte
	for _, id := range ids {
		joined = append(joined, tokenizer.Bytes(id)...)
	}
	require.Equal(t, text, string(joined))
	require.Greater(t, len(ids), 4)
	require.Nil(t, tokenizer.Bytes(-1))
	require.Nil(t, tokenizer.Bytes(int32(tokenizer.VocabSize())))
}

// TestDecoderWithoutTokenizer checks that the decoder of an engine without a tokenizer gives no text.
func TestDecoderWithoutTokenizer(t *testing.T) {
	var none *llmrun.Tokenizer
	d := none.NewDecoder()
	text, err := d.Next(5)
	require.NoError(t, err)
	require.Empty(t, text+d.Flush())
}
